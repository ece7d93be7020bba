"""The cluster's own tokens, checked by TokenReview."""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from tieline_api.auth.authentication import Caller
from tieline_api.auth.ttl_cache import TtlCache
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import TOKEN_REVIEWS

_REFUSED_SECONDS = 5.0
_CACHED_TOKENS = 10_000
_ACCOUNT_PREFIX = "system:serviceaccount:"


class TokenReviewer:
    """Asks Kubernetes who a token belongs to; answers are kept by the token's hash."""

    def __init__(
        self,
        kube: Kube,
        *,
        audiences: Sequence[str] = (),
        seconds: float = 60.0,
        away_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``audiences``: for whom tokens must be made; the API server's own when there are none.

        ``away_seconds``: how much longer an answer counts while Kubernetes is away.
        """
        self._kube = kube
        self._audiences = tuple(audiences)
        self._seconds = seconds
        self._cache: TtlCache[bytes, Caller | None] = TtlCache(
            size=_CACHED_TOKENS, grace=away_seconds, clock=clock
        )

    async def authenticate(self, token: str) -> Caller | None:
        """The token's caller, or None for a token that Kubernetes does not accept."""

        async def ask() -> tuple[Caller | None, float]:
            caller = await self._review(token)
            return caller, self._seconds if caller else _REFUSED_SECONDS

        return await self._cache.get(hashlib.sha256(token.encode()).digest(), ask)

    async def _review(self, token: str) -> Caller | None:
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._kube.create(TOKEN_REVIEWS, review)).get("status", {})
        if not status.get("authenticated"):
            return None
        if self._audiences and not set(self._audiences) & set(status.get("audiences") or ()):
            return None
        user = status.get("user", {})
        username = user.get("username", "")
        account = username.startswith(_ACCOUNT_PREFIX)
        return Caller(
            username=username,
            uid=user.get("uid", ""),
            groups=tuple(user.get("groups") or ()),
            extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
            kind="serviceAccount" if account else "user",
            display_name=username.rpartition(":")[2] if account else "",
        )
