"""An external system that records what reaches it, and contexts that lead to it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tieline import Context
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import parse
from tieline.context import Named, RunMetadata
from tieline.telemetry.redaction import Redactor

RUN_METADATA = RunMetadata(
    organisation_id="01ORGANISATION",
    project=Named(id="01PROJECT", name="Order sync"),
    environment=Named(id="01ENVIRONMENT", name="production"),
    version="v1",
    public_url="http://10.0.0.1",
)


@dataclass
class Seen:
    """A request as the external system got it."""

    method: str
    url: URL
    headers: Any
    cookies: dict[str, str]
    body: bytes


@dataclass
class External:
    """A real HTTP server that answers 200 with JSON, or redirects paths as told."""

    seen: list[Seen] = field(default_factory=list)
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    server: TestServer = field(init=False)

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self.server = TestServer(application)
        await self.server.start_server()

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    async def _handle(self, request: web.Request) -> web.Response:
        url = URL(f"http://{request.host}{request.raw_path}", encoded=True)
        self.seen.append(
            Seen(request.method, url, request.headers.copy(), dict(request.cookies), await request.read())
        )
        if request.path in self.redirects:
            status, location = self.redirects[request.path]
            return web.Response(status=status, headers={"Location": location})
        return web.json_response({"id": "1"}, headers={"Set-Cookie": "session=of-another-run"})


def api_key(
    place: str, value: str = "key-1234", *, id: str = "key", name: str = "X-API-Key"
) -> dict[str, Any]:
    return {
        "id": id,
        "type": "string",
        "authScheme": {"id": id, "type": "api-key", "apiKey": {"name": name, "in": place}},
        "data": {"value": value},
    }


def basic(username: str = "ann", password: str = "pa55wörd") -> dict[str, Any]:
    return {
        "id": "login",
        "type": "basic-auth",
        "authScheme": {"id": "login", "type": "basic-auth", "basicAuth": {}},
        "data": {"username": username, "password": password},
    }


def scheme_credential(
    scheme: str, options: dict[str, Any], *, type: str = "string", **data: Any
) -> dict[str, Any]:
    """A credential for an auth scheme with a sub-object."""
    first, *rest = scheme.split("-")
    key = first + "".join(word.capitalize() for word in rest)
    return {
        "id": scheme,
        "type": type,
        "authScheme": {"id": scheme, "type": scheme, key: options},
        "data": data,
    }


def environment(base_url: str, *credentials: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A body of the internal endpoint with the one connection ``shop``."""
    return {
        "organisationId": "01ORGANISATION",
        "variables": {"region": "eu"},
        "connections": {
            "shop": {
                "id": "01CONNECTION",
                "name": "Shop",
                "baseUrl": base_url,
                "templateId": "01TEMPLATE",
                "system": {"id": "01SYSTEM", "name": "Shop", "domain": "shop", "templateBaseUrl": base_url},
                "credentials": list(credentials),
            }
        },
        "templates": {"shop": {"id": "01TEMPLATE", "dynamic": False, "linked": True}},
        **more,
    }


def configured(body: dict[str, Any] | None = None) -> Configuration:
    configuration = Configuration(redactor=Redactor(), needed=False)
    if body is not None:
        configuration.publish(parse(body))
    return configuration


def context(client: aiohttp.ClientSession, configuration: Configuration) -> Context:
    return Context(
        execution_id="01EXECUTION", configuration=configuration, client=client, run_metadata=RUN_METADATA
    )


ContextFor = Callable[[dict[str, Any]], Context]
