"""A provider of the catalogue in a test: it speaks as the provider does, and the test acts at its side."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.snapshot import Connection
from tieline.connectors.description import Descriptions
from tieline.emulator.connection import connection
from tieline.emulator.grants import Clock
from tieline.emulator.messages import Reply
from tieline.emulator.provider import Provider
from tieline.emulator.server import Emulator
from tieline.emulator.webhooks import WebhookSender
from tieline.testing.answer import Answer
from tieline.testing.fake_connections import FakeConnection, SeenRequest, UnexpectedRequestError
from tieline_catalogue.catalogue import catalogue
from tieline_protocol.signature_presets import PRESET_OPTIONS

_NOT_EMULATED = 501


@dataclass(frozen=True, kw_only=True)
class ProviderList:
    """A list of the API."""

    path: str
    """The path below the base URL."""
    items: int
    """How many items it has."""
    is_posted: bool = False
    """Whether it is read by POST."""


@dataclass(frozen=True, kw_only=True)
class ProjectSide:
    """What a provider does with the project of its test."""

    url: Callable[[], str]
    """Where its webhooks are."""
    send: Callable[[str, bytes, Mapping[str, str]], Answer]
    """Runs a webhook by a request with this path, body and headers."""
    keep_credential: Callable[[str, Mapping[str, Any]], None]
    """Gives a template's connection a credential."""


class EmulatedProvider(FakeConnection):
    """What a connection template leads to: a provider of the catalogue; made by ``Project.provider``.

    It wants the provider's credentials and headers, has its limits, tokens and lists, and answers its check request.
    Other endpoints answer what the entry says, or what the test says: ``on("POST", "/chat.postMessage").answer(…)``.
    ``requests`` are those to the API.
    """

    def __init__(
        self,
        key: str,
        *,
        template: str,
        project: ProjectSide,
        clock: Callable[[], float] = time.time,
        on_limit: Callable[[], None] = lambda: None,
        descriptions: Descriptions | None = None,
    ) -> None:
        """Raises UnknownEntryError for a key that the catalogue does not have."""
        entry = catalogue().get(key)
        raw = {"key": entry.key, "name": entry.name, "system": entry.system, "emulator": entry.emulator}
        self._provider = Provider(raw, presets=PRESET_OPTIONS, clock=Clock(clock))
        self._emulator = Emulator([self._provider])
        base_path = self._provider.base_url.removeprefix("https:/")
        super().__init__(
            template, base_path=base_path, clock=clock, on_limit=on_limit, descriptions=descriptions
        )
        self._project = project

    def connection_body(self) -> dict[str, Any]:
        """The connection, as a connections file has it."""
        return {
            "id": f"connection-{self.name}",
            "name": self.name,
            **connection(self._provider, self._address),
        }

    @property
    def _address(self) -> str:
        return str(URL(self.url).origin())

    # At the provider's side

    def expire(self) -> None:
        """End all access tokens."""
        self._provider.expire()

    def revoke(self) -> None:
        """Take back what the person has allowed: tokens end, and a refresh is refused."""
        self._provider.revoke()

    def limit(self, times: int = 1, *, duration: float | timedelta = 30.0) -> None:
        """Answer the next requests with "too many requests", as the provider says it."""
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        self._provider.limit_requests(times, seconds=seconds)

    def fail(self, times: int = 1, *, status: int = 503) -> None:
        """Answer the next requests with an error of the server."""
        self._provider.fail(times, status=status)

    @property
    def lists(self) -> list[ProviderList]:
        """Its lists."""
        return [
            ProviderList(path=one.path.replace("{any}", "any"), items=one.total, is_posted=one.is_posted)
            for one in self._provider.api.lists
            if one.kind != "graphql"
        ]

    @property
    def tokens_issued(self) -> int:
        """How many access tokens there have been."""
        return len(self._provider.grants.access)

    def signs_for(self, template: str) -> None:
        """Give a template's connection the secret with which the provider signs webhooks."""
        scheme = next(one for one in self._provider.system["authSchemeConfigs"] if one["type"] == "hmac")
        credential = {
            "type": "string",
            "authScheme": {"type": "hmac", "hmac": scheme["hmac"]},
            "data": {"value": self._sender.secret},
        }
        self._project.keep_credential(template, credential)

    def send_webhook(
        self, path: str, content: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Run the project's webhook by a signed request of the provider; ``content`` is its JSON or form."""
        address = self._project.url()
        made = self._sender.webhook(address + path, content, headers=headers, now=self._clock())
        return self._project.send(made.url.removeprefix(address), made.body, made.headers)

    @property
    def _sender(self) -> WebhookSender:
        if self._provider.webhooks is None:
            raise LookupError(f"The catalogue's entry {self._provider.key} has no auth scheme for webhooks")
        return self._provider.webhooks

    # Requests

    def _answer(self, request: SeenRequest) -> Answer | None:
        asked, _ = self._emulator.read(request.method, request.url, request.headers, request.body)
        if asked is None:
            raise UnexpectedRequestError(f"{self._provider.name} has no URL {request.url}")
        if not request.url.path.startswith(f"{self._base_path}/"):
            return self._as_answer(self._emulator.serve(asked))
        self.requests.append(request)
        script = next((item for item in reversed(self._scripts) if item.matches(request)), None)
        if script is None:
            reply = self._emulator.serve(asked)
            if reply.status == _NOT_EMULATED:
                raise UnexpectedRequestError(self._description(request))
            return self._as_answer(reply)
        refused = self._provider.api.refusal(asked)
        return self._as_answer(refused) if refused is not None else self._scripted(request)[1]

    def _as_answer(self, reply: Reply) -> Answer:
        moved = self._emulator.moved(reply, self._address)
        return Answer(status=moved.status, headers=CIMultiDict(moved.headers), body=moved.body)


class EmulatedTokens:
    """Access tokens of connections to emulated providers; those of others stay as they are."""

    def __init__(self, tokens: AccessTokens, is_emulated: Callable[[Connection], bool]) -> None:
        self._tokens = tokens
        self._is_emulated = is_emulated

    def newest(self, connection: Connection) -> Connection:
        """See AccessTokens."""
        return self._tokens.newest(connection) if self._is_emulated(connection) else connection

    async def ready(self, connection: Connection) -> Connection:
        """See AccessTokens."""
        return await self._tokens.ready(connection) if self._is_emulated(connection) else connection

    async def instead_of(self, connection: Connection) -> Connection | None:
        """See AccessTokens."""
        return await self._tokens.instead_of(connection) if self._is_emulated(connection) else None
