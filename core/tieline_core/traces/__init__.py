"""Traces: OpenTelemetry's protocol in, an embedded store, and what is asked of it."""
