"""Credentials in Secrets: reading and writing them, and what is known of them."""
