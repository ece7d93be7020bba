"""The two external applications of the order pipeline: an ERP that can be switched off, and a storefront.

The ERP: PUT and DELETE /reservations/{number}; POST /orders books an order, once for each Idempotency-Key; GET /orders
lists the bookings in order, and how often one was asked for again. It needs the header X-API-Key to be API_KEY.
POST /switch {"away": true} has it answer 503 until {"away": false}.

The storefront: PUT /storefront/orders/{number}/status, signed with SIGNING_KEY; GET /storefront/orders lists them.
All is kept in memory.
"""

import hashlib
import hmac
import os
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

API_KEY = os.environ["API_KEY"]
SIGNING_KEY = os.environ["SIGNING_KEY"]
PORT = int(os.environ.get("PORT", "8080"))
MOST = 10_000

routes = web.RouteTableDef()
reservations: dict[str, Any] = {}
bookings: list[dict[str, Any]] = []
by_key: dict[str, dict[str, Any]] = {}
counts = {"repeats": 0, "refused": 0}
statuses: dict[str, Any] = {}
switch = {"away": False}


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """401 for what shows no key or signature, and 503 from an ERP that is switched off."""
    storefront = request.path.startswith("/storefront/")
    if request.path in ("/healthz", "/switch") or (storefront and request.method == "GET"):
        return await handler(request)
    if storefront:
        digest = hmac.new(SIGNING_KEY.encode(), await request.read(), hashlib.sha256).hexdigest()
        expected, given = f"sha256={digest}", request.headers.get("X-Signature", "")
    else:
        expected, given = API_KEY, request.headers.get("X-API-Key", "")
    if not hmac.compare_digest(given.encode(), expected.encode()):
        return web.json_response({"error": "The key or the signature is missing or wrong"}, status=401)
    if switch["away"] and not storefront and request.method != "GET":
        counts["refused"] += 1
        return web.json_response({"error": "The ERP is under maintenance"}, status=503)
    return await handler(request)


@routes.get("/healthz")
async def healthz(_request: web.Request) -> web.Response:
    """Whether it is up."""
    return web.Response(text="ok")


@routes.post("/switch")
async def set_switch(request: web.Request) -> web.Response:
    """Switch the ERP off and on: {away}."""
    switch["away"] = bool((await request.json())["away"])
    return web.json_response(switch)


@routes.put("/reservations/{number}")
async def reserve(request: web.Request) -> web.Response:
    """Stock for an order: {lines}."""
    if len(reservations) >= MOST:
        return web.json_response({"error": "The ERP's book is full"}, status=507)
    reservations[request.match_info["number"]] = (await request.json())["lines"]
    return web.Response(status=204)


@routes.delete("/reservations/{number}")
async def release(request: web.Request) -> web.Response:
    """The order does not need its stock any more."""
    reservations.pop(request.match_info["number"], None)
    return web.Response(status=204)


@routes.post("/orders")
async def book(request: web.Request) -> web.Response:
    """Book an order of the form {number, customer, lines} for which stock is reserved."""
    key, order = request.headers.get("Idempotency-Key", ""), await request.json()
    if not key or order["number"] not in reservations or not order["lines"]:
        return web.json_response({"error": "It has no key, no reservation or no lines"}, status=422)
    if key in by_key:
        counts["repeats"] += 1
        return web.json_response(by_key[key])
    if len(bookings) >= MOST:
        return web.json_response({"error": "The ERP's book is full"}, status=507)
    booking = {
        "booking": f"B-{len(bookings) + 1}",
        "number": order["number"],
        "customer": order["customer"],
    }
    bookings.append(booking)
    by_key[key] = booking
    return web.json_response(booking, status=201)


@routes.get("/orders")
async def list_orders(_request: web.Request) -> web.Response:
    """All bookings, oldest first."""
    return web.json_response({"orders": bookings, **counts})


@routes.put("/storefront/orders/{number}/status")
async def set_status(request: web.Request) -> web.Response:
    """What became of an order: {status, booking}."""
    if len(statuses) >= MOST:
        return web.json_response({"error": "The storefront's book is full"}, status=507)
    statuses[request.match_info["number"]] = await request.json()
    return web.Response(status=204)


@routes.get("/storefront/orders")
async def list_statuses(_request: web.Request) -> web.Response:
    """All orders with their status."""
    return web.json_response(statuses)


def application() -> web.Application:
    """Both as an aiohttp application."""
    app = web.Application(middlewares=[authenticate])
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application(), port=PORT, print=None)
