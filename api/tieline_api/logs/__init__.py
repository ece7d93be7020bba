"""Logs of environments, read from their pods."""
