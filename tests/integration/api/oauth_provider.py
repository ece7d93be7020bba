"""A provider of OAuth 2.0 that checks what arrives with code of its own, on a thread of its own."""

import asyncio
import base64
import hashlib
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.harness.processes.local_servers import serving

CLIENT_ID = "tieline"
CLIENT_SECRET = "cl1ent:s3cret ä"


@dataclass
class Provider:
    """Issues codes for authorise URLs (as if a user had agreed) and tokens for codes, each once."""

    url: str = ""
    requests: list[dict[str, str]] = field(default_factory=list)
    """What the token endpoint was asked."""
    failing: bool = False
    """Answer 503."""
    slow: float = 0.0
    """Seconds until the token endpoint answers."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refresh_tokens: set[str] = field(default_factory=set)
    _serving: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/token", self._token)
        self.url = self._serving.enter_context(serving(app))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._serving.close()

    def scheme(self, **changes: Any) -> dict[str, Any]:
        """The auth scheme of a system that has this provider."""
        client = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}
        fields = {
            "id": "oauth",
            "tokenUrl": f"{self.url}/token",
            "authorizeUrl": f"{self.url}/authorize",
            "grant": {"type": "authorizationCode", "authorizationCode": client},
            "pkce": True,
            "additionalTokenParams": "audience=shop",
            **changes,
        }
        return {"type": "oauth2", "oauth2": fields}

    def agree(self, url: str) -> dict[str, str]:
        """What the user comes back with from this authorise URL: ``code`` and ``state``."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["response_type"] == "code"
        code = secrets.token_urlsafe(12)
        self._codes[code] = query
        return {"code": code, "state": query["state"]}

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        await asyncio.sleep(self.slow)
        if self.failing:
            return web.Response(status=503)
        if not self._is_client(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        if form.get("audience") != "shop":
            return web.json_response({"error": "invalid_request"}, status=400)
        if form["grant_type"] == "refresh_token":
            return self._issued("orders", known=form["refresh_token"] in self._refresh_tokens)
        asked = self._codes.pop(form.get("code", ""), None)
        return self._issued("orders", known=asked is not None and self._fits(asked, form))

    @staticmethod
    def _is_client(request: web.Request, form: dict[str, str]) -> bool:
        header = request.headers.get("Authorization", "")
        if not header:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        read = parse_qs(f"name={name}&secret={secret}")
        return read == {"name": [CLIENT_ID], "secret": [CLIENT_SECRET]}

    @staticmethod
    def _fits(asked: dict[str, str], form: dict[str, str]) -> bool:
        verifier = form.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        challenge = asked.get("code_challenge")
        same = form.get("redirect_uri") == asked["redirect_uri"]
        return same and (digest == challenge if challenge else not verifier)

    def _issued(self, scope: str, *, known: bool) -> web.Response:
        if not known:
            return web.json_response({"error": "invalid_grant", "error_description": "no"}, status=400)
        pair = {"access_token": f"at-{secrets.token_hex(8)}", "refresh_token": f"rt-{secrets.token_hex(8)}"}
        self._refresh_tokens.add(pair["refresh_token"])
        return web.json_response({**pair, "token_type": "Bearer", "expires_in": 3600, "scope": scope})
