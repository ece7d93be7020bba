"""Builds images without Docker."""
