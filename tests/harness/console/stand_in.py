"""The console's files and its session in front of a real API, for tests and for work on the pages. It is not shipped.

It serves console/dist under the policy that the API sends, keeps a token that somebody pastes in this process, and
passes ``/api`` on with it. What the API does not have yet is answered here from what the API has: who one is (`me`)
and the figures of the overview.
"""

from __future__ import annotations

import asyncio
import threading
import urllib.parse
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.harness.cluster.kubectl import Organisation

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
COOKIE = "console-of-a-test"
OWN_HEADER = "X-Tieline-Console"
SUMMARY = "/metricssummary"
PASSED_ON = ("Content-Type", "ETag", "Link", "Warning", "WWW-Authenticate")


class StandIn:
    """Serves on a port of its own, until it is stopped."""

    def __init__(self, api: str, files: Path, organisation: Organisation, roles: dict[str, str]) -> None:
        """``api`` is the API's URL, ``roles`` says which role a token has in ``organisation``."""
        self._api = api
        self._files = files
        self._organisation = organisation
        self._roles = roles
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        app = web.Application()
        app.add_routes(
            [
                web.get("/console/session", self._session),
                web.post("/console/session", self._sign_in),
                web.delete("/console/session", self._sign_out),
                web.get("/api/v2/me", self._checked(self._me)),
                web.get("/api/v2/o/{organisation}/metricssummary", self._checked(self._summary)),
                web.route("*", "/api/{path:.*}", self._checked(self._pass_on)),
                web.get("/console{path:.*}", self._file),
            ]
        )
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        await self._client.close()
        await self._runner.cleanup()

    async def _session(self, request: web.Request) -> web.Response:
        signed_in = request.cookies.get(COOKIE) in self._roles
        return web.json_response({"signedIn": signed_in, "methods": [{"type": "token"}]})

    async def _sign_in(self, request: web.Request) -> web.Response:
        token = (await request.json())["token"]
        if token not in self._roles:
            return web.json_response(
                {"code": "unauthorised", "message": "The token is not valid"}, status=401
            )
        answer = web.Response(status=204)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
        return answer

    async def _sign_out(self, _: web.Request) -> web.Response:
        answer = web.Response(status=204)
        answer.del_cookie(COOKIE)
        return answer

    def _checked(self, handler: Callable[[web.Request, str], Any]) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            token = request.cookies.get(COOKIE, "")
            if request.headers.get(OWN_HEADER) != "1" or token not in self._roles:
                return web.json_response({"code": "unauthorised", "message": "Sign in first"}, status=401)
            answer: web.StreamResponse = await handler(request, token)
            return answer

        return handle

    async def _me(self, _: web.Request, token: str) -> web.Response:
        reached = {
            "id": self._organisation.id,
            "name": "Acme",
            "namespace": self._organisation.namespace,
            "role": self._roles[token],
        }
        me = {
            "id": "somebody",
            "name": "ann@acme.example",
            "kind": "user",
            "groups": [],
            "organisations": [reached],
        }
        return web.json_response(me)

    async def _summary(self, request: web.Request, token: str) -> web.Response:
        start = datetime.fromisoformat(request.query["start"])
        end = datetime.fromisoformat(request.query["end"])
        buckets = int(request.query["buckets"])
        width = (end - start) / buckets
        runs = await self._runs(request, token, start)
        series = [
            _bucket([run for run in runs if _within(run, start + each * width, width)], start + each * width)
            for each in range(buckets)
        ]
        failed = sum(each["errors"] for each in series)
        body = {
            "deployedProjects": 0,
            "totalExecutions": sum(each["executions"] for each in series),
            "totalErrors": {"current": failed, "past": 0},
            "series": series,
        }
        return web.json_response(body)

    async def _runs(self, request: web.Request, token: str, start: datetime) -> list[dict[str, Any]]:
        path = f"{self._api}{request.path.removesuffix(SUMMARY)}/runs"
        query = {"first": "200", "start": start.isoformat()}
        async with self._client.get(path, params=query, headers=_bearer(token)) as answer:
            found: list[dict[str, Any]] = (await answer.json()).get("items", [])
        return found

    async def _pass_on(self, request: web.Request, token: str) -> web.Response:
        headers = _bearer(token)
        if "Content-Type" in request.headers:
            headers["Content-Type"] = request.headers["Content-Type"]
        url = f"{self._api}{request.rel_url.raw_path}"
        url += f"?{request.query_string}" if request.query_string else ""
        target = urllib.parse.quote(url, safe="/:?&=%+,;@~!$'()*[]")
        async with self._client.request(
            request.method,
            aiohttp.client.URL(target, encoded=True),
            data=await request.read(),
            headers=headers,
        ) as answer:
            kept = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        wanted = self._files / request.match_info["path"].lstrip("/")
        there = wanted.is_file() and wanted.resolve().is_relative_to(self._files.resolve())
        return web.FileResponse(wanted if there else self._files / "index.html", headers=headers)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _within(run: dict[str, Any], start: datetime, width: timedelta) -> bool:
    return start <= datetime.fromisoformat(run["queuedAt"]) < start + width


def _bucket(runs: list[dict[str, Any]], start: datetime) -> dict[str, Any]:
    failed = [run for run in runs if run["status"] in ("failed", "dead")]
    return {"start": start.isoformat(), "executions": len(runs), "errors": len(failed)}
