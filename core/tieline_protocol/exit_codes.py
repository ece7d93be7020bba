"""Exit codes by which a project pod says why it ended, beside its termination message."""

BLOCKED = 75
"""Code blocked the event loop for longer than ``TIELINE_BLOCKED_SECONDS``."""
