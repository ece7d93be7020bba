"""The two external applications of the stock example: a supplier whose stock changes, and a shop.

The supplier: GET /changes?after=&limit= lists changes, oldest first; POST /changes makes one.
The shop: PUT /stock/{sku} sets a quantity; GET /stock lists them, GET /log what was set, in order.
Both need the header X-API-Key to be API_KEY, and keep everything in memory.
"""

import hmac
import os
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

API_KEY = os.environ["API_KEY"]
PORT = int(os.environ.get("PORT", "8080"))
MOST = 10_000

routes = web.RouteTableDef()
changes: list[dict[str, Any]] = [{"sku": f"sku-{number:03}", "quantity": number} for number in range(120)]
stock: dict[str, int] = {}
log: list[dict[str, Any]] = []
asked: list[str] = []


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """401 for anything but the health check that does not carry the key."""
    given = request.headers.get("X-API-Key", "")
    if request.path != "/healthz" and not hmac.compare_digest(given.encode(), API_KEY.encode()):
        return web.json_response({"error": "The header X-API-Key is missing or wrong"}, status=401)
    return await handler(request)


@routes.get("/healthz")
async def healthz(_request: web.Request) -> web.Response:
    """Whether it is up."""
    return web.Response(text="ok")


@routes.get("/changes")
async def list_changes(request: web.Request) -> web.Response:
    """A page of changes behind the cursor ``after``."""
    after = request.query.get("after", "")
    try:
        start, limit = int(after or 0), min(int(request.query.get("limit", "50")), 100)
    except ValueError:
        return web.json_response({"error": "after and limit are numbers"}, status=400)
    asked.append(after)
    page = changes[start : start + limit]
    end = start + len(page)
    return web.json_response({"changes": page, "next": str(end), "more": end < len(changes)})


@routes.post("/changes")
async def change(request: web.Request) -> web.Response:
    """A product's new quantity at the supplier: {sku, quantity}."""
    body = await request.json()
    if len(changes) >= MOST:
        return web.json_response({"error": "The supplier's book is full"}, status=507)
    changes.append({"sku": str(body["sku"]), "quantity": int(body["quantity"])})
    return web.Response(status=201)


@routes.put("/stock/{sku}")
async def set_stock(request: web.Request) -> web.Response:
    """The shop's quantity of a product."""
    sku, body = request.match_info["sku"], await request.json()
    if len(log) >= MOST:
        return web.json_response({"error": "The shop's book is full"}, status=507)
    stock[sku] = int(body["quantity"])
    log.append({"sku": sku, "quantity": stock[sku]})
    return web.Response(status=204)


@routes.get("/stock")
async def list_stock(_request: web.Request) -> web.Response:
    """All quantities."""
    return web.json_response(stock)


@routes.get("/log")
async def list_log(_request: web.Request) -> web.Response:
    """What was set, oldest first, and the cursors that were asked for."""
    return web.json_response({"set": log, "asked": asked})


def application() -> web.Application:
    """Both as an aiohttp application."""
    app = web.Application(middlewares=[authenticate])
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application(), port=PORT, print=None)
