"""The billing system of the invoices example, for trying only: it keeps everything in memory.

What it does is in openapi.yaml beside this file. Every request needs the header X-API-Key to be API_KEY.
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
invoices: list[dict[str, Any]] = []
known: dict[str, dict[str, Any]] = {}
"""Invoices by the Idempotency-Key of the request that made them."""


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


@routes.get("/invoices")
async def list_invoices(request: web.Request) -> web.Response:
    """A page of invoices behind the cursor ``after``."""
    try:
        start, limit = int(request.query.get("after") or 0), int(request.query.get("limit", "50"))
    except ValueError:
        return web.json_response({"error": "after and limit are numbers"}, status=400)
    state = request.query.get("state")
    found = [invoice for invoice in invoices if state in (None, invoice["state"])]
    page = found[start : start + limit]
    more = start + len(page) < len(found)
    return web.json_response({"invoices": page, "next": str(start + len(page)) if more else None})


@routes.post("/invoices")
async def create_invoice(request: web.Request) -> web.Response:
    """A new invoice; the same one again for a key that was used before."""
    key, body = request.headers.get("Idempotency-Key", ""), await request.json()
    if key in known:
        return web.json_response(known[key], status=201)
    if len(invoices) >= MOST:
        return web.json_response({"error": "The book is full"}, status=507)
    invoice = {
        "id": str(len(invoices) + 1),
        "order": body["order"],
        "customer": body["customer"],
        "cents": sum(line["quantity"] * line["cents"] for line in body["lines"]),
        "state": "open",
    }
    invoices.append(invoice)
    if key:
        known[key] = invoice
    return web.json_response(invoice, status=201)


@routes.put("/invoices/{id}/payment")
async def pay_invoice(request: web.Request) -> web.Response:
    """Marks an invoice as paid."""
    for invoice in invoices:
        if invoice["id"] == request.match_info["id"]:
            invoice["state"] = "paid"
            return web.json_response(invoice)
    return web.json_response({"error": "There is no such invoice"}, status=404)


def application() -> web.Application:
    """The billing system as an aiohttp application."""
    app = web.Application(middlewares=[authenticate])
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application(), port=PORT, print=None)
