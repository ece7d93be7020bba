"""Users' activations: looked up when a run needs one, so that their number costs a pod nothing."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

import aiohttp

from tieline.configuration.current import Configuration, log_changes
from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.configuration.snapshot import Activation, parse_activation
from tieline.errors import ConfigurationError, reason
from tieline_common.bounded_dict import BoundedDict
from tieline_common.single_flight import SingleFlight

logger = logging.getLogger("tieline.configuration")

LIST_PATH = "/internal/v1/environment/users"
PATH = f"{LIST_PATH}/"
PAGE = 100
"""Users whose activations are listed at once."""
_TIMEOUT = aiohttp.ClientTimeout(total=5, connect=2)
# A change of a user's variables or connections is seen within this time.
_FRESH = 2.0
# While the API is away, it is asked again this often; until then what is known is used at once.
_PAUSE = 2.0
_REMEMBERED = 1000


class UsersUnavailableError(Exception):
    """The API cannot be asked about a user that this pod knows nothing of."""


class Users(Protocol):
    """Where users' activations come from."""

    async def find(self, external_id: str) -> Activation | None:
        """The activation of the user with this external id, or None; raises UsersUnavailableError."""

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """The external ids of users with an activation, from a cursor on (empty: from the beginning).

        With the cursor of the next page; None after the last one. Raises UsersUnavailableError.
        """


class ConfiguredUsers:
    """Activations that came with the configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def find(self, external_id: str) -> Activation | None:
        """See Users."""
        return self._configuration.current.users.get(external_id)

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """See Users."""
        names = sorted(name for name in self._configuration.current.users if not after or name > after)
        return names[:PAGE], names[PAGE - 1] if len(names) > PAGE else None


@dataclass
class _Known:
    """What the API said of a user, and when."""

    activation: Activation | None
    etag: str | None
    asked: float


@dataclass
class ApiUsers:
    """Asks the API for activations, and keeps those that were used last.

    What is kept is used for two seconds, then asked for again (by ETag). While the API is away, runs go
    on with what is kept. Runs that want the same user at once share one request.
    """

    api: PodApi
    now: Callable[[], float]
    _known: BoundedDict[str, _Known] = field(default_factory=lambda: BoundedDict(_REMEMBERED))
    _requests: SingleFlight[str, None] = field(default_factory=SingleFlight)
    _away_until: float = 0.0

    async def find(self, external_id: str) -> Activation | None:
        """See Users."""
        known = self._known.get(external_id)
        if known is None or self._is_old(known):
            await self._requests.run(external_id, lambda: self._request(external_id, known))
            known = self._known.get(external_id)
        if known is None:
            raise UsersUnavailableError
        self._known.move_to_end(external_id)
        return known.activation

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """See Users."""
        query = {"limit": str(PAGE), "after": after}
        try:
            answer = await self.api.request("GET", LIST_PATH, query=query, limits=_TIMEOUT)
            if answer.status != 200:
                raise ConfigurationError(f"it answered {answer.status}")
            body = answer.json()
            return [str(name) for name in body["externalIds"]], body.get("next")
        except (*UNREACHABLE, KeyError, TypeError, ValueError, ConfigurationError) as error:
            logger.warning("Could not ask the API for the users: %s", reason(error))
            raise UsersUnavailableError from error

    def _is_old(self, known: _Known) -> bool:
        now = self.now()
        return now - known.asked >= _FRESH and now >= self._away_until

    async def _request(self, external_id: str, known: _Known | None) -> None:
        asked, etag = self.now(), known.etag if known else None
        try:
            path = f"{PATH}{quote(external_id, safe='')}"
            answer = await self.api.request("GET", path, etag=etag, limits=_TIMEOUT)
            if answer.status == 304 and known is not None:
                known.asked = asked
                return
            if answer.status not in {200, 404}:
                raise ConfigurationError(f"it answered {answer.status}")
            found = parse_activation(answer.json()) if answer.status == 200 else None
        except (*UNREACHABLE, ValueError, ConfigurationError) as error:
            if asked >= self._away_until:
                logger.warning("Could not ask the API for a user's activation: %s", reason(error))
            self._away_until = self.now() + _PAUSE
            return
        self._known[external_id] = _Known(found, answer.etag, asked)
        log_changes(_changes_of(known.activation if known else None), _changes_of(found))


def _changes_of(activation: Activation | None) -> Mapping[str, str]:
    return activation.changes if activation else {}
