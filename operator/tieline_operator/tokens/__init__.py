"""Refreshes OAuth tokens before they expire."""
