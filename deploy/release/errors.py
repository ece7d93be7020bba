"""What stops a release."""


class ReleaseError(Exception):
    """Something is wrong; the message says what, and what to do."""
