"""The keys that sessions are sealed with: one Secret for all replicas, which the first one makes.

Two keys are kept, so that a new one ends no session. A replica that sees a text of a key that it does not know reads
the Secret again at once, but not more than once in ``_REREAD`` seconds: made-up texts cause no storm.
"""

import base64
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_api.console.sealing import KEY_BYTES, Key, KeyRing, UnknownKeyError
from tieline_api.errors import unavailable
from tieline_common.single_flight import SingleFlight
from tieline_core.identity.ids import format_time, parse_time
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.errors import AlreadyExists, Conflict, NotFound
from tieline_core.kubernetes.reading import find, secret_values
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import Object, ObjectView

logger = logging.getLogger(__name__)

KEYS_SECRET = "tieline-console-keys"  # noqa: S105  (a name)
MADE = "tieline.dev/key-made-at"
LABELS = {"app.kubernetes.io/name": "tieline-console", "app.kubernetes.io/part-of": "tieline"}
_CURRENT, _PREVIOUS = "current", "previous"
_ROTATION = timedelta(days=30)
"""Longer than any session, so that two keys are enough."""
_KEEP = 60.0
_REREAD = 5.0


class SessionKeys:
    """The keys in the Secret; without a namespace, keys of this process alone."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._now = now
        self._clock = clock
        self._ring: KeyRing | None = None if namespace else KeyRing((Key.new(),))
        self._read = float("-inf")
        self._flights: SingleFlight[str, KeyRing] = SingleFlight()

    async def seal(self, purpose: str, content: bytes) -> str:
        """The sealed text. ApiError 503 while there is no key."""
        return (await self._fresh(_KEEP)).seal(purpose, content)

    async def unseal(self, purpose: str, text: str) -> bytes:
        """The content. Raises UnsealError; ApiError 503 while there is no key."""
        ring = await self._fresh(_KEEP)
        try:
            return ring.unseal(purpose, text)
        except UnknownKeyError:
            return (await self._fresh(_REREAD)).unseal(purpose, text)

    async def _fresh(self, seconds: float) -> KeyRing:
        if self._ring is not None and (not self._namespace or self._clock() - self._read < seconds):
            return self._ring
        try:
            return await self._flights.run("read", self._load)
        except KubeError as error:
            self._read = self._clock()
            logger.error("The Secret %s cannot be read or made: %s", KEYS_SECRET, error.message)
            if self._ring is not None:
                return self._ring
            raise unavailable(
                f"Nobody can sign in right now: the API cannot read or make the Secret {KEYS_SECRET}"
            ) from None

    async def _load(self) -> KeyRing:
        secret = await find(self._kube, SECRETS, KEYS_SECRET, self._namespace)
        if secret is None or not _keys(secret):
            secret = await self._made(secret)
        elif self._is_old(secret):
            secret = await self._rotated(secret)
        self._ring, self._read = KeyRing(_keys(secret)), self._clock()
        return self._ring

    async def _made(self, unusable: Object | None) -> Object:
        """A new Secret, or that of the replica that was quicker."""
        made = self._manifest(Key.new())
        try:
            if unusable is None:
                return await self._kube.create(SECRETS, made)
            made["metadata"]["resourceVersion"] = unusable["metadata"]["resourceVersion"]
            return await self._kube.replace(SECRETS, made)
        except (AlreadyExists, Conflict):
            return await self._kube.get(SECRETS, KEYS_SECRET, self._namespace)

    async def _rotated(self, secret: Object) -> Object:
        """The Secret with a new key before the one that it has, or as another replica has rotated it."""
        made = self._manifest(Key.new(), _keys(secret)[0])
        made["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
        try:
            return await self._kube.replace(SECRETS, made)
        except (Conflict, NotFound):
            return await self._kube.get(SECRETS, KEYS_SECRET, self._namespace)

    def _is_old(self, secret: ObjectView) -> bool:
        try:
            made = parse_time((secret["metadata"].get("annotations") or {}).get(MADE, ""))
        except ValueError:
            return True
        return self._now() - made >= _ROTATION

    def _manifest(self, current: Key, previous: Key | None = None) -> dict[str, Any]:
        values = {_CURRENT: current} | ({_PREVIOUS: previous} if previous else {})
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": KEYS_SECRET,
                "namespace": self._namespace,
                "labels": dict(LABELS),
                "annotations": {MADE: format_time(self._now())},
            },
            "type": "Opaque",
            "data": {name: base64.b64encode(key.secret).decode() for name, key in values.items()},
        }


def _keys(secret: ObjectView) -> tuple[Key, ...]:
    """The keys that can be used; none where the current one is none."""
    try:
        values = secret_values(secret)
    except ValueError:
        return ()
    found = [values.get(name, b"") for name in (_CURRENT, _PREVIOUS)]
    if len(found[0]) != KEY_BYTES:
        return ()
    return tuple(Key(one) for one in found if len(one) == KEY_BYTES)
