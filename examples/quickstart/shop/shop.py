"""A small shop: an external application that the quickstart's integration sends orders to.

POST /orders stores an order, GET /orders lists them; both need the header X-API-Key to be SHOP_API_KEY.
Orders are kept in memory, so a restart forgets them.
"""

import hmac
import os
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

API_KEY = os.environ["SHOP_API_KEY"]
PORT = int(os.environ.get("SHOP_PORT", "8080"))
MOST_ORDERS = 10_000

routes = web.RouteTableDef()
orders: list[dict[str, Any]] = []


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """401 for anything but the health check that does not carry the key."""
    given = request.headers.get("X-API-Key", "")
    if request.path != "/healthz" and not hmac.compare_digest(given.encode(), API_KEY.encode()):
        return web.json_response({"error": "The header X-API-Key is missing or wrong"}, status=401)
    return await handler(request)


@routes.get("/healthz")
async def healthz(_request: web.Request) -> web.Response:
    """Whether the shop is up."""
    return web.Response(text="ok")


@routes.get("/orders")
async def list_orders(_request: web.Request) -> web.Response:
    """All orders, oldest first."""
    return web.json_response({"orders": orders})


@routes.post("/orders")
async def create_order(request: web.Request) -> web.Response:
    """Store an order of the form {customer, reference, lines: [{sku, quantity, unitPriceCents}]}."""
    try:
        order = await request.json()
        lines = [{key: line[key] for key in ("sku", "quantity", "unitPriceCents")} for line in order["lines"]]
        stored = {
            "id": str(len(orders) + 1),
            "customer": order["customer"],
            "reference": order["reference"],
            "lines": lines,
            "totalCents": sum(line["quantity"] * line["unitPriceCents"] for line in lines),
        }
    except (KeyError, TypeError, ValueError) as error:
        return web.json_response({"error": f"The order cannot be read: {error!r}"}, status=422)
    if len(orders) >= MOST_ORDERS:
        return web.json_response({"error": "The shop has sold out"}, status=507)
    orders.append(stored)
    return web.json_response(stored, status=201)


def application() -> web.Application:
    """The shop as an aiohttp application."""
    app = web.Application(middlewares=[authenticate])
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application(), port=PORT, print=None)
