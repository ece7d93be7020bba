"""Serves providers: each at its own hosts, or below a path that begins with the host.

A request for ``https://slack.com/api/auth.test`` arrives with ``Host: slack.com`` where names lead here (tests do
that), or as ``http://127.0.0.1:9100/slack.com/api/auth.test``. In the second form, URLs in answers have that form too.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.emulator.messages import Asked, Reply
from tieline.emulator.provider import Provider
from tieline.emulator.webhooks import SignatureNotEmulatedError

CONTROL = "/_emulator"
_MAX_BODY = 4 * 1024 * 1024
_MOST_SHOWN = 4096
_TIMEOUT = aiohttp.ClientTimeout(total=60)


class Emulator:
    """Some providers behind one port."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self.providers: Mapping[str, Provider] = {one.key: one for one in providers}

    def application(self) -> web.Application:
        """The server."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_get("/", self._index)
        app.router.add_post(CONTROL + "/{key}/{action}", self._control)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    def serve(self, asked: Asked) -> Reply:
        """The answer of the provider whose request it is."""
        there = [one for one in self.providers.values() if one.serves(asked.url.host or "")]
        known = [one for one in there if one.knows(asked)]
        for one in known or there:
            if (reply := one.serve(asked)) is not None:
                return reply
        return Reply.of({"error": "not_found", "message": f"No provider here has {asked.url}"}, status=404)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        address = f"{request.scheme}://{request.host}"
        asked, is_below = self.read(
            request.method,
            URL(address + request.raw_path, encoded=True),
            request.headers,
            await request.read(),
        )
        if asked is None:
            return _response(Reply.of(f"No provider is emulated at {request.host}{request.path}", status=404))
        reply = self.serve(asked)
        return _response(self.moved(reply, address) if is_below else reply)

    def read(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes
    ) -> tuple[Asked | None, bool]:
        """A request as the provider sees it, and whether its host stood in the path; None where it is no provider's."""
        found, is_below = self._provider_url(url)
        if found is None:
            return None, False
        sent = CIMultiDictProxy(CIMultiDict(headers))
        sent_to = url if is_below else None
        return Asked(method=method, url=found, headers=sent, body=body, sent_to=sent_to), is_below

    def _provider_url(self, url: URL) -> tuple[URL | None, bool]:
        if self._serves(url.host or ""):
            return URL(f"https://{url.host}{url.raw_path_qs}", encoded=True), False
        host, slash, rest = url.raw_path_qs.lstrip("/").partition("/")
        host, mark, query = host.partition("?")
        if not self._serves(host):
            return None, False
        return URL(f"https://{host}{slash}{rest}{mark}{query}", encoded=True), True

    def _serves(self, host: str) -> bool:
        return any(one.serves(host) for one in self.providers.values())

    # URLs in answers

    def moved(self, reply: Reply, address: str) -> Reply:
        """An answer whose URLs of providers lead to ``address`` (``http://127.0.0.1:9100``)."""
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in reply.headers.items():
            headers.add(name, self._moved_text(value, address))
        body = reply.body
        if reply.headers.get("Content-Type") == "application/json":
            return Reply.of(self._moved_json(reply.content, address), status=reply.status, headers=headers)
        return Reply(status=reply.status, headers=headers, body=body)

    def _moved_json(self, content: Any, address: str) -> Any:
        if isinstance(content, dict):
            return {name: self._moved_json(value, address) for name, value in content.items()}
        if isinstance(content, list):
            return [self._moved_json(value, address) for value in content]
        return self._moved_text(content, address) if isinstance(content, str) else content

    def _moved_text(self, text: str, address: str) -> str:
        first, *parts = text.split("https://")
        made = [first]
        for part in parts:
            host = part.partition("/")[0].partition("?")[0].partition(">")[0]
            made.append((f"{address}/" if self._serves(host) else "https://") + part)
        return "".join(made)

    # For people

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if self._serves(request.host.partition(":")[0]):
            return await self._handle(request)
        rows = "".join(self._row(one) for one in self.providers.values())
        head = '<meta charset="utf-8"><link rel="icon" href="data:,"><title>Emulated providers</title>'
        body = f"<body><h1>Emulated providers</h1>{rows}</body>"
        html = f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>'
        return web.Response(text=html, content_type="text/html")

    @staticmethod
    def _row(provider: Provider) -> str:
        forms = "".join(
            f'<form method="post" action="{CONTROL}/{escape(provider.key)}/{action}">'
            f"<button>{escape(text)}</button></form>"
            for action, text in _ACTIONS.items()
        )
        known = f"<p>{len(provider.seen)} requests, {len(provider.grants.access)} access tokens</p>"
        return f"<h2>{escape(provider.name)}</h2>{known}{forms}"

    async def _control(self, request: web.Request) -> web.StreamResponse:
        """``POST /_emulator/slack/limit?times=3``: what a test does at the provider's side, for people."""
        provider = self.providers.get(request.match_info["key"])
        action = request.match_info["action"]
        if request.headers.get("Origin", (own := f"{request.scheme}://{request.host}")) != own:
            return _response(Reply.of({"error": "forbidden", "message": "another page asks"}, status=403))
        if provider is None or action not in (*_ACTIONS, "webhook"):
            return _response(Reply.of({"error": "not_found", "actions": [*_ACTIONS, "webhook"]}, status=404))
        try:
            if action == "webhook":
                return _response(await _send(provider, request.query["url"], await request.read()))
            done = act(provider, action, dict(request.query))
        except (KeyError, ValueError, SignatureNotEmulatedError) as error:
            return _response(Reply.of({"error": "invalid_request", "message": str(error)}, status=400))
        if "text/html" in request.headers.get("Accept", ""):
            return web.Response(status=303, headers={"Location": "/"})
        return _response(Reply.of({"done": done}))


_ACTIONS = {
    "expire": "End all access tokens",
    "revoke": "Take back all consents",
    "limit": "Answer the next request with a rate limit",
    "fail": "Answer the next request with 503",
    "advance": "Let an hour go by",
}


def act(provider: Provider, action: str, options: Mapping[str, str]) -> Any:
    """Carries out one of the actions. Raises ValueError for an option that is no number."""
    times = int(options.get("times") or 1)
    match action:
        case "expire":
            return provider.expire()
        case "revoke":
            return provider.revoke()
        case "limit":
            return provider.limit_requests(times, seconds=float(options.get("seconds") or 30))
        case "fail":
            return provider.fail(times, status=int(options.get("status") or 503))
        case _:
            return provider.advance(float(options.get("seconds") or 3600))


async def _send(provider: Provider, url: str, body: bytes) -> Reply:
    """Sends a signed webhook, and says what it was answered."""
    if provider.webhooks is None:
        return Reply.of({"error": "invalid_request", "message": "it has no scheme for webhooks"}, status=400)
    made = provider.webhooks.webhook(url, json.loads(body) if body else None)
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as client:
        try:
            async with client.post(
                made.url, data=made.body, headers=made.headers, allow_redirects=False
            ) as answer:
                text = (await answer.content.read(_MOST_SHOWN)).decode("utf-8", "replace")
                return Reply.of({"status": answer.status, "body": text})
        except (aiohttp.ClientError, TimeoutError) as error:
            return Reply.of({"error": "unreachable", "message": f"{url}: {error!r}"}, status=502)


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
