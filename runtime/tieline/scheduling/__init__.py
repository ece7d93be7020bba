"""Schedules: when they are due, who runs them, and what is remembered of that."""
