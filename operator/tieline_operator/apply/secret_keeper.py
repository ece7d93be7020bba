"""What keeps Secrets of the release's namespace: it looks at them now and then, and tries again where that fails."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from tieline_common.backoff import exponential, jitter
from tieline_core.kubernetes import NotFound, Resource
from tieline_core.kubernetes.resources import SECRETS
from tieline_operator.apply.applier import Writer
from tieline_operator.apply.plan import Object

RECHECK_SECONDS = 300.0
"""How late it is noticed that something is due, or that a Secret was changed."""
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0


class Reader(Protocol):
    """Reads an object from the API server."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Mapping[str, Any]: ...


class SecretKeeper(ABC):
    """Secrets that follow from each other, and from the time."""

    def __init__(self, kube: Reader, writes: Writer, *, namespace: str, logger: logging.Logger) -> None:
        self._kube = kube
        self._writes = writes
        self._namespace = namespace
        self._logger = logger
        self.problem = ""
        """Why a Secret cannot be used or written; it quotes no value."""

    @abstractmethod
    async def refresh(self) -> bool:
        """Reads the Secrets and writes what is due. False where that did not work."""

    async def run(self) -> None:
        """Refreshes now and then, for ever."""
        failures = 0
        while True:
            failures = 0 if await self.refresh() else failures + 1
            wait = exponential(failures, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF)
            await asyncio.sleep(jitter(wait) if failures else RECHECK_SECONDS)

    def _succeeded(self, message: str) -> bool:
        """True; logs the message if there was a problem."""
        if self.problem:
            self._logger.info(message)
        self.problem = ""
        return True

    def _failed(self, problem: str) -> bool:
        """False; logs a problem that is new as an error."""
        level = logging.DEBUG if problem == self.problem else logging.ERROR
        self._logger.log(level, "%s", problem, extra={"namespace": self._namespace})
        self.problem = problem
        return False

    async def _get(self, name: str) -> Object | None:
        try:
            return await self._kube.get(SECRETS, name, self._namespace)
        except NotFound:
            return None
