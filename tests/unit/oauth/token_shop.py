"""A token endpoint and a connection that keepers of tests work with."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import ACME, MemoryLookups, credential, make, oauth2, system
from tieline_core.credentials.token_manager import FreshTokens, TokenManager
from tieline_core.identity.ids import object_id
from tieline_core.identity.names import tokens_name
from tieline_core.oauth.state_store import OAuthStateStore, PendingAuthorization, new_state
from tieline_protocol.oauth.token_client import Tokens

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CALLBACK = "https://tieline.example/oauth2/callback"
PKCE = "v" * 43


@dataclass
class Provider:
    """A token endpoint that keeps what it is asked, and answers with a new pair of tokens or as it is told."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answers: list[Mapping[str, Any] | int] = field(default_factory=list)

    async def token(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append(form)
        self.paths.append(request.path)
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, int):
            return web.Response(status=answer)
        if "error" in answer:
            return web.json_response(answer, status=400)
        number = len(self.asked)
        issued = {"access_token": f"at{number}", "refresh_token": f"rt{number}", "expires_in": 3600}
        return web.json_response({**issued, **answer})


class Shop:
    """One connection with one credential, and as many keepers as a test wants processes."""

    def __init__(self, provider: Provider, kind: str, *, grant: str = "authorizationCode", **scheme: Any):
        self.kube = MemoryKube()
        self.now = NOW
        self.system = system(oauth2(grant=grant, tokenUrl=provider.url, **scheme))
        self.connection = self.kube.put(
            make(
                "Connection",
                "login",
                name="Login",
                systemRef={"name": "shop"},
                credentials=[credential(kind=kind)],
            )
        )
        self.lookups = MemoryLookups(self.system, self.connection)
        self.states = OAuthStateStore(self.kube, seconds=600, now=lambda: self.now)

    def store(self, **values: str) -> None:
        """What the person's Secret holds, for caches and cluster alike."""
        self.lookups.put_secret("main", **values)
        data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
        metadata = {"name": "main", "namespace": "acme"}
        self.kube.put(
            {"kind": "Secret", "type": "tieline.dev/credential", "metadata": metadata, "data": data}
        )

    async def authorise(self, *, code: str = "c0de", **pending: Any) -> str:
        """A user has come back with a code, which is stored with its state."""
        state = new_state(ACME)
        given = {
            "organisation_id": ACME,
            "system_id": object_id(self.system),
            "credential_id": "main",
            "client_id": "app",
            "redirect_uri": CALLBACK,
            "requested_by": "someone",
            "code_verifier": PKCE,
            "scopes": "orders offline_access",
        }
        await self.states.remember(state, PendingAuthorization(**{**given, **pending}), system=self.system)
        self.store(code=code, state=state)
        return state

    @property
    def tokens_secret(self) -> dict[str, Any]:
        return self.kube.objects["Secret", "acme", tokens_name("login", "main")]


async def kept(token_manager: TokenManager, shop: Shop, **options: Any) -> Tokens:
    """The tokens of the shop's credential."""
    found = await token_manager.fresh(shop.connection, "main", **options)
    assert isinstance(found, FreshTokens)
    return found.tokens
