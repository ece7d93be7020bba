"""Garbage collection: Secrets that nothing refers to, and credentials that have expired."""
