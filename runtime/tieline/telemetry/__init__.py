"""Logs, traces, metrics, and the redaction of secrets in them."""
