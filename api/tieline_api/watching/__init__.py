"""Watching an organisation: its changes as server-sent events."""
