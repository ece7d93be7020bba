"""TLS between pods and the platform: its authority, the certificates of API and engine, and who trusts them."""
