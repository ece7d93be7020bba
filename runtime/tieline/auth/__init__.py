"""Auth schemes: they sign outbound requests and verify webhooks."""
