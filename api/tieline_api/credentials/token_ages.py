"""How long ago this process saw the platform put an access token into its Secret.

Not when the token says that it was issued: another replica's clock has written that, and where one is a minute
ahead, a token that has ended would look new to all others.
"""

import time
from collections.abc import Callable
from math import inf
from typing import Any

from cachetools import TTLCache

from tieline_core.kubernetes import Change
from tieline_core.objects import ObjectView

YOUNG_SECONDS = 30.0


class TokenAges:
    """Subscribe ``changed`` to the cache of Secrets. Remembers what came within ``young`` seconds."""

    def __init__(self, *, young: float = YOUNG_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        # No bound but time: tokens are written by this platform alone, each at most a few times within ``young``.
        self._changed: TTLCache[str, None] = TTLCache(inf, young, clock)

    def __len__(self) -> int:
        return len(self._changed)

    def changed(self, change: Change[Any]) -> None:
        """Notes that a Secret has another access token; what a start finds is of an unknown age, and not young."""
        uid = change.object["metadata"]["uid"]
        if change.old is None or change.new is None:
            self._changed.pop(uid, None)
        elif _access_token(change.old) != _access_token(change.new):
            self._changed[uid] = None

    def is_young(self, secret: ObjectView) -> bool:
        """Whether the Secret's access token is new."""
        return secret["metadata"]["uid"] in self._changed


def _access_token(secret: ObjectView) -> Any:
    return (secret.get("data") or {}).get("accessToken")
