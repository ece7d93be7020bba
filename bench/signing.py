"""``python -m bench.signing``: what each auth scheme costs a request, beside the bare call.

Two figures each: the applier alone, and a whole request of this process to a server in another one, in
processor time, which neighbours on the machine change least. The bare call and all schemes take turns.
"""

import argparse
import asyncio
import base64
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import uvloop
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from multidict import CIMultiDict
from yarl import URL

from bench.figures import table
from tieline.auth.prepared_request import PreparedRequest
from tieline.auth.schemes import authenticate
from tieline.configuration.snapshot import Connection, parse
from tieline.http_client.session import Session, new_client

_BODIES = {"1 KiB": os.urandom(1024), "1 MiB": os.urandom(1024 * 1024)}
_ALONE, _REQUESTS, _ROUNDS = 300, 150, 7
_KEY = base64.b64encode(os.urandom(32)).decode()


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _credential(scheme: str, options: dict[str, Any], **data: Any) -> dict[str, Any]:
    key = {"api-key": "apiKey", "basic-auth": "basicAuth", "jwt-bearer": "jwtBearer"}.get(scheme, scheme)
    return {
        "id": scheme,
        "type": "x",
        "authScheme": {"id": scheme, "type": scheme, key: options},
        "data": data,
    }


def _hmac(algorithm: str) -> dict[str, Any]:
    options = {"name": "X-Sig", "in": "header", "algorithm": algorithm, "digestInputs": ["body", "url"]}
    return _credential("hmac", options, value=_KEY)


def _oauth1(method: str, secret: str) -> dict[str, Any]:
    options = {"consumerKey": "consumer", "signatureMethod": method}
    tokens = {"oauthToken": "token", "oauthTokenSecret": "token-secret", "consumerSecret": secret}
    return _credential("oauth1", options, **tokens)


def credentials() -> dict[str, list[dict[str, Any]]]:
    """The credentials of a connection for each row of the table."""
    private = _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    curve = _pem(ec.generate_private_key(ec.SECP256R1()))
    key = _credential("api-key", {"name": "X-API-Key", "in": "header"}, value=_KEY)
    return {
        "none": [_credential("none", {})],
        "api-key, header": [key],
        "api-key, query": [_credential("api-key", {"name": "key", "in": "query"}, value=_KEY)],
        "api-key, cookie": [_credential("api-key", {"name": "key", "in": "cookie"}, value=_KEY)],
        "basic-auth": [_credential("basic-auth", {}, username="ann", password=_KEY)],
        "oauth2": [_credential("oauth2", {}, accessToken=_KEY)],
        "secret, header": [_credential("secret", {"name": "X-Secret", "in": "header"}, value=_KEY)],
        "hmac sha1": [_hmac("sha1")],
        "hmac sha256": [_hmac("sha256")],
        "hmac sha512": [_hmac("sha512")],
        "jwt-bearer RS256 (one token for many requests)": [
            _credential("jwt-bearer", {"algorithm": "RS256", "expiresIn": 600}, key=private)
        ],
        "jwt-bearer ES256 (one token for many requests)": [
            _credential("jwt-bearer", {"algorithm": "ES256", "expiresIn": 600}, key=curve)
        ],
        "oauth1 HMAC-SHA256": [_oauth1("HMAC-SHA256", _KEY)],
        "oauth1 RSA-SHA256": [_oauth1("RSA-SHA256", private)],
        "api-key, oauth2 and hmac sha256": [
            key,
            _credential("oauth2", {}, accessToken=_KEY),
            _hmac("sha256"),
        ],
    }


def _connection(base_url: str, credentials: list[dict[str, Any]]) -> Connection:
    shop = {"id": "1", "name": "Shop", "baseUrl": base_url, "credentials": credentials}
    template = {"shop": {"id": "1", "dynamic": False, "linked": True}}
    return parse({"connections": {"shop": shop}, "templates": template}).connections["shop"]


async def _alone(connection: Connection, body: bytes) -> float:
    """Seconds of processor time that the appliers take for a request."""

    async def read() -> bytes:
        return body

    async def once() -> None:
        await authenticate(
            PreparedRequest(
                method="POST",
                url=URL("http://127.0.0.1/orders?a=1&b=2"),
                headers=CIMultiDict({"Content-Type": "application/octet-stream"}),
                read=read,
            ),
            connection,
        )

    return await _cost(once, times=_ALONE)


async def _cost(call: Callable[[], Awaitable[object]], *, times: int) -> float:
    await call()
    began = time.process_time()
    for _ in range(times):
        await call()
    return (time.process_time() - began) / times


async def _take(request: web.Request) -> web.Response:
    await request.read()
    return web.json_response({"id": "1"})


async def serve() -> None:
    """The external system; tells its port on its output."""
    application = web.Application(client_max_size=16 * 1024 * 1024)
    application.router.add_post("/orders", _take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _requests(client: aiohttp.ClientSession, url: str) -> dict[str, Callable[[bytes], Awaitable[None]]]:
    """A whole request each: bare, and through a connection with each of the credentials."""

    async def bare(body: bytes) -> None:
        async with client.post(f"{url}/orders", data=body) as response:
            await response.read()

    def through(session: Session) -> Callable[[bytes], Awaitable[None]]:
        async def call(body: bytes) -> None:
            async with session.post("/orders", data=body) as response:
                await response.read()

        return call

    def session(found: Connection) -> Session:
        return Session(client, lambda: found)

    made = {name: through(session(_connection(url, one))) for name, one in credentials().items()}
    return {"bare aiohttp, no connection": bare, **made}


async def measure() -> None:
    """Starts the other side, measures, prints the table."""
    command = (sys.executable, "-m", "bench.signing", "--serve")
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(await asyncio.wait_for(server.stdout.readline(), 30))
        async with new_client() as client:
            whole = await _whole(_requests(client, f"http://127.0.0.1:{port}"))
    finally:
        server.terminate()
        await server.wait()
    alone = {
        name: [await _alone(_connection("http://127.0.0.1", given), body) for body in _BODIES.values()]
        for name, given in credentials().items()
    }
    bare = next(iter(whole.values()))
    rows = [
        [
            name,
            *([f"{cost * 1e6:.1f}" for cost in alone[name]] if name in alone else ["", ""]),
            f"{cost * 1e6:.0f}",
            f"{(cost - bare) * 1e6:+.0f}" if name in alone else "",
        ]
        for name, cost in whole.items()
    ]
    headings = [*(f"applying alone, {size} µs" for size in _BODIES), "request, 1 KiB µs", "over bare µs"]
    print(
        table("Applying credentials and signing, processor time a request", ["auth scheme", *headings], rows)
    )


async def _whole(calls: dict[str, Callable[[bytes], Awaitable[None]]]) -> dict[str, float]:
    """The median cost of each call over rounds in which they take turns."""
    body = _BODIES["1 KiB"]
    costs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            costs[name].append(await _cost(lambda call=call: call(body), times=_REQUESTS))  # type: ignore[misc]
    return {name: statistics.median(found) for name, found in costs.items()}


def main() -> None:
    """The other side, or the measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    uvloop.run(serve() if arguments.serve else measure())


if __name__ == "__main__":
    main()
