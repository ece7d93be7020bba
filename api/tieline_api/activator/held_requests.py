"""How many requests are held for environments without pods, and how many bytes they have: bounded, and fairly."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tieline_api import errors

MAX_BODY = 10 << 20
"""Bytes of one body: pods take no more by default."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Bound:
    """What may be held at once."""

    requests: int
    bytes: int


Owners = tuple[str, str, str]
"""What a request counts for: all, its organisation's namespace, its environment."""
_ALL = ""
OF_ALL = Bound(512, 96 << 20)
OF_ORGANISATION = Bound(256, 48 << 20)
OF_ENVIRONMENT = Bound(64, 24 << 20)


class HeldRequests:
    """Counts them. Use it in one event loop.

    An organisation may hold at most as many as stay free (a dynamic threshold), so there is always room for others.
    """

    def __init__(
        self,
        *,
        of_all: Bound = OF_ALL,
        of_organisation: Bound = OF_ORGANISATION,
        of_environment: Bound = OF_ENVIRONMENT,
    ) -> None:
        self._of_all, self._of_organisation, self._of_environment = of_all, of_organisation, of_environment
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._requests[_ALL]

    @contextmanager
    def hold(self, namespace: str, environment: str) -> Iterator["Held"]:
        """Holds a request of an environment (by its id). ApiError 503 where there are too many."""
        owners = (_ALL, namespace, f"{namespace}/{environment}")
        if not self._is_room(self._requests, owners, 1, lambda bound: bound.requests):
            raise starting("Too many requests wait for environments to start")
        held = Held(self, owners)
        self._requests.update(owners)
        try:
            yield held
        finally:
            for owner in owners:
                self._requests[owner] -= 1
                self._bytes[owner] -= held.size
            for counted in (self._requests, self._bytes):
                for owner in owners:
                    if counted[owner] <= 0:
                        del counted[owner]

    def add(self, owners: Owners, size: int) -> None:
        """Counts bytes. ApiError 503 where there are too many."""
        if not self._is_room(self._bytes, owners, size, lambda bound: bound.bytes):
            raise starting("The requests that wait for environments to start are too large")
        for owner in owners:
            self._bytes[owner] += size

    def _is_room(
        self, counted: Counter[str], owners: Owners, more: int, limit: Callable[[Bound], int]
    ) -> bool:
        _, organisation, environment = (counted[owner] + more for owner in owners)
        free = limit(self._of_all) - counted[_ALL]
        most = min(limit(self._of_organisation), free)
        return organisation <= most and environment <= limit(self._of_environment)


class Held:
    """A request that is held."""

    def __init__(self, requests: HeldRequests, owners: Owners) -> None:
        self._requests = requests
        self._owners = owners
        self.size = 0

    def add(self, size: int) -> None:
        """Its body has so many bytes more. ApiError 413 and 503."""
        if self.size + size > MAX_BODY:
            raise errors.too_large("The body", limit=MAX_BODY)
        self._requests.add(self._owners, size)
        self.size += size


def starting(message: str) -> errors.ApiError:
    """503 with ``Retry-After``."""
    return errors.ApiError(
        503,
        "environment_starting",
        f"{message}: try again in {RETRY_SECONDS:.0f} s",
        headers={"Retry-After": f"{RETRY_SECONDS:.0f}"},
    )
