"""Fakes of external systems: real HTTP servers on this machine, with scripted answers and a record of requests."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy, MultiMapping
from yarl import URL

from tieline.connectors.description import Descriptions
from tieline.testing.answer import Answer
from tieline.testing.described import answer_of, path_pattern

Answering = Callable[["SeenRequest"], Answer]


class UnexpectedRequestError(AssertionError):
    """The code sent a request that the test has no answer for."""


@dataclass(frozen=True, kw_only=True)
class SeenRequest:
    """A request as the external system got it: with credentials, signatures and all."""

    method: str
    path: str
    """The path under the connection's base URL, decoded."""
    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def query(self) -> MultiMapping[str]:
        """The decoded query parameters."""
        return self.url.query

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def __str__(self) -> str:
        query = f"?{self.url.query_string}" if self.url.query_string else ""
        return f"{self.method} {self.path}{query}"


def _document_in(request: SeenRequest) -> Any:
    try:
        body = request.json()
    except ValueError:
        return None
    return body.get("query") if isinstance(body, dict) else None


@dataclass
class Script:
    """What is answered to requests of one kind, in order; the last answer is repeated."""

    method: str
    path: str
    query: Mapping[str, str]
    described: Callable[[int | None, Mapping[str, Any], bool], Answer] | None = None
    """Makes answers of an operation that a connector's description has."""
    document: str = ""
    """What a request of GraphQL has to ask; empty for other requests."""
    _answers: list[Answer | Answering | None] = field(default_factory=list)
    _given: int = 0

    def answer(
        self,
        status: int | Answering = 200,
        *,
        json: Any = None,
        text: str | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> "Script":
        """Answer once so (the next time by what follows), or by what a function returns for a request."""
        if callable(status):
            self._answers.append(status)
        else:
            self._answers.append(Answer.of(status, json=json, text=text, body=body, headers=headers))
        return self

    def answer_operation(
        self,
        status: int | None = None,
        *,
        json: Any = None,
        text: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> "Script":
        """Answer once as the description says: what is left out is the description's status, and an example.

        Raises AnswerNotDescribedError for an answer that it does not have, unless ``check`` is False.
        """
        if self.described is None:
            raise TypeError("Only what FakeConnection.answer returns knows a description")
        given = {"json": json, "text": text, "body": body, "headers": headers}
        self._answers.append(self.described(status, given, check))
        return self

    def lose_connection(self) -> "Script":
        """Close the connection once instead of answering."""
        self._answers.append(None)
        return self

    def matches(self, request: SeenRequest) -> bool:
        """Whether this is what it was written for."""
        return (
            request.method == self.method
            and _pattern(self.path).fullmatch(request.path) is not None
            and all(request.query.get(name) == value for name, value in self.query.items())
            and (not self.document or _document_in(request) == self.document)
        )

    def next(self, request: SeenRequest) -> Answer | None:
        """The next answer; None to close the connection. Raises what a function raises."""
        answer = self._answers[min(self._given, len(self._answers) - 1)] if self._answers else Answer.of()
        self._given += 1
        return answer(request) if callable(answer) else answer

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.method} {self.path}{'?' + query if query else ''}"


class FakeConnection:
    """What a connection template leads to in a test; made by ``Project.connection``.

    ``requests`` are those that arrived, oldest first.
    """

    def __init__(
        self,
        name: str,
        *,
        base_path: str = "",
        clock: Callable[[], float] = time.time,
        on_limit: Callable[[], None] = lambda: None,
        descriptions: Descriptions | None = None,
    ) -> None:
        """``clock`` is the test's, ``on_limit`` is called when the connection has to have limits."""
        self.name = name
        self.full_until = float("-inf")
        """When its limits leave room again, by the test's clock."""
        self.is_pause = False
        """Whether they leave no room since the system asked for a pause."""
        self.paused_seconds = 0.0
        """What the system asked for, and nobody has waited for yet."""
        self.has_limits = False
        self._clock = clock
        self._on_limit = on_limit
        self._descriptions = descriptions or Descriptions()
        self.requests: list[SeenRequest] = []
        self.unexpected: list[str] = []
        self._base_path = base_path.rstrip("/")
        self._scripts: list[Script] = []
        self._server: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The connection's base URL."""
        return f"http://127.0.0.1:{self._port}{self._base_path}"

    def on(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> Script:
        """Expect requests of this method and path (under the base URL), and say what is answered to them.

        ``{name}`` in the path stands for one segment, ``*`` for anything; ``query`` must be among the request's
        parameters. Of several that match, the one written last answers. Without an ``answer`` it is an empty 200.
        """
        script = Script(method=method.upper(), path=path, query=dict(query or {}))
        self._scripts.append(script)
        return script

    def reach_limit(self, duration: float | timedelta = 60.0) -> None:
        """Leave no room in the connection's limits for a time of the test's clock, which ``Project.advance`` turns.

        The code's requests get a LimitReachedError at once, as they do when a run has waited for all its time, and do
        not arrive. A connection without limits in the connections file gets some.
        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        self.full_until, self.is_pause, self.has_limits = self._clock() + seconds, False, True
        self._on_limit()

    def answer(
        self,
        operation: str,
        status: int | None = None,
        *,
        json: Any = None,
        text: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = True,
        connector: str | None = None,
    ) -> Script:
        """Expect calls of an operation, and answer as the connector's description says.

        What is left out is the description's: the status of a success, and an example of the body. Add
        ``.answer_operation(…)`` for the calls after the first. ``connector`` is for templates with another name.

        Raises AnswerNotDescribedError for an answer that the description does not have, unless ``check`` is False;
        ConnectorDescriptionError and UnknownOperationError.
        """
        description = self._descriptions.get(connector or self.name)
        found = description.operation(operation)
        script = self.on(found.method, "*" if found.document else path_pattern(found))
        script.document = found.document
        script.described = lambda code, given, checked: answer_of(
            description, operation, code, given, check=checked
        )
        return script.answer_operation(status, json=json, text=text, body=body, headers=headers, check=check)

    async def start(self) -> None:
        """Begin to listen on a free port."""
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._server = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await self._server.setup()
        site = web.TCPSite(self._server, "127.0.0.1", 0)
        await site.start()
        self._port = self._server.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.cleanup()

    async def _handle(self, raw: web.Request) -> web.StreamResponse:
        url = URL(f"http://{raw.host}{raw.raw_path}", encoded=True)
        request = SeenRequest(
            method=raw.method,
            path=url.path.removeprefix(self._base_path) or "/",
            url=url,
            headers=CIMultiDictProxy(raw.headers.copy()),
            body=await raw.read(),
        )
        try:
            answer = self._answer(request)
        except UnexpectedRequestError as error:
            self.unexpected.append(str(error))
            return web.Response(status=501, text=str(error))
        if answer is None:
            if raw.transport is not None:
                raw.transport.abort()
            return web.Response()
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    def _answer(self, request: SeenRequest) -> Answer | None:
        """The answer; None closes the connection. Raises UnexpectedRequestError."""
        self.requests.append(request)
        found, answer = self._scripted(request)
        if not found:
            raise UnexpectedRequestError(self._description(request))
        return answer

    def _scripted(self, request: SeenRequest) -> tuple[bool, Answer | None]:
        """Whether the test has an answer, and that."""
        script = next((item for item in reversed(self._scripts) if item.matches(request)), None)
        if script is None:
            return False, None
        try:
            return True, script.next(request)
        except Exception as error:
            raise UnexpectedRequestError(f"The answer to {request} could not be made: {error!r}") from error

    def _description(self, request: SeenRequest) -> str:
        known = "".join(f"\n  {script}" for script in self._scripts) or " nothing"
        body = f"\nIts body: {request.text[:500]}" if request.body else ""
        return (
            f"The code sent {request} through the template {self.name!r}, which this test has no answer for.\n"
            f"There are answers for:{known}{body}\n"
            f'Write connection.on("{request.method}", "{request.path}").answer(…) before it runs, if it may'
        )


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{[^}]*\}|\*)", path)
    return re.compile(
        "".join(".*" if part == "*" else "[^/]+" if part[:1] == "{" else re.escape(part) for part in parts)
    )
