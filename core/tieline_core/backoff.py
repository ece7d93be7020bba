"""Chance, so that replicas, retries and reconnects do not all come at one moment."""

import random


def jitter(seconds: float, least: float = 0.5, most: float = 1.5) -> float:
    """``seconds`` times a share by chance, between ``least`` and ``most``.

    >>> 5.0 <= jitter(10.0) <= 15.0
    True
    """
    return seconds * random.uniform(least, most)  # noqa: S311  (no secret depends on it)
