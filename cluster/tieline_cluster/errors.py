"""The one exception of this package."""


class ClusterError(Exception):
    """Something that the person at the terminal can act on: the message says what failed and what to do next."""
