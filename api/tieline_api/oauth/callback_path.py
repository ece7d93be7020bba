"""Where providers send users back to: a path below the API's public address."""

CALLBACK = "/oauth2/callback"
