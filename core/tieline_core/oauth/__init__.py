"""The OAuth protocol: token requests and responses, stored tokens, authorization states."""
