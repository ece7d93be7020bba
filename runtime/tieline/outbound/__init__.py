"""Requests to external systems: where they go and what authenticates them."""
