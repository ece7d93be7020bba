"""How long ago this process saw the platform put an access token into its Secret.

Not when the token says that it was issued: another replica's clock has written that, and where one is a minute
ahead, a token that has ended would look new to all others.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tieline_core.kubernetes import Change

YOUNG_SECONDS = 30.0

Obj = Mapping[str, Any]


class TokenAges:
    """Subscribe ``changed`` to the cache of Secrets. Remembers what came within ``young`` seconds."""

    def __init__(self, *, young: float = YOUNG_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._young = young
        self._clock = clock
        self._came: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._came)

    def changed(self, change: Change) -> None:
        """Notes that a Secret has another access token; what a start finds is of an unknown age, and not young."""
        self._forget_what_is_old()
        if change.old is None or change.new is None:
            self._came.pop(change.object["metadata"]["uid"], None)
        elif _access_token(change.old) != _access_token(change.new):
            uid = change.new["metadata"]["uid"]
            self._came[uid] = self._clock()
            self._came.move_to_end(uid)

    def is_young(self, secret: Obj) -> bool:
        """Whether the Secret's access token came just now."""
        came = self._came.get(secret["metadata"]["uid"])
        return came is not None and self._clock() - came < self._young

    def _forget_what_is_old(self) -> None:
        while self._came and self._clock() - next(iter(self._came.values())) >= self._young:
            self._came.popitem(last=False)


def _access_token(secret: Obj) -> Any:
    return (secret.get("data") or {}).get("accessToken")
