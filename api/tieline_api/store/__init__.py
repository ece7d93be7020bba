"""Writes to Kubernetes by server-side apply, and garbage collection."""
