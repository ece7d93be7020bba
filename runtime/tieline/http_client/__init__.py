"""HTTP requests to external systems: the session, retries, authentication."""
