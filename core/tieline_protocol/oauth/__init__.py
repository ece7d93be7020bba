"""Token requests of OAuth 2.0 in the dialects of providers: one implementation for the platform and for local runs."""
