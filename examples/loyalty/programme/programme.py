"""A small loyalty programme: the external application that the loyalty example credits points in.

PUT /accounts/{name}/credits/{order} with {points} credits an order once; GET /accounts/{name} tells the balance. Both
want the account's own login (HTTP Basic). ACCOUNTS lists them: ``ann:password,ben:password``. Points are kept in
memory, so a restart forgets them.
"""

import hmac
import os

from aiohttp import BasicAuth, web

LOGINS = dict(entry.split(":", 1) for entry in os.environ["ACCOUNTS"].split(","))
PORT = int(os.environ.get("PORT", "8080"))
MOST_CREDITS = 10_000

routes = web.RouteTableDef()
accounts: dict[str, dict[str, int]] = {name: {} for name in LOGINS}


@routes.get("/healthz")
async def healthz(_request: web.Request) -> web.Response:
    """Whether the programme is up."""
    return web.Response(text="ok")


@routes.put("/accounts/{name}/credits/{order}")
async def credit(request: web.Request) -> web.Response:
    """Credit an order's points; the same order again changes nothing."""
    account = _account(request)
    if len(account) >= MOST_CREDITS:
        return web.json_response({"error": "The account is full"}, status=507)
    account[request.match_info["order"]] = int((await request.json())["points"])
    return web.json_response({"balance": sum(account.values())})


@routes.get("/accounts/{name}")
async def balance(request: web.Request) -> web.Response:
    """The account's balance."""
    return web.json_response({"balance": sum(_account(request).values())})


def _account(request: web.Request) -> dict[str, int]:
    """The account in the path; 401 for anybody but its owner."""
    name = request.match_info["name"]
    try:
        login = BasicAuth.decode(request.headers.get("Authorization", ""))
    except ValueError:
        raise web.HTTPUnauthorized from None
    expected = LOGINS.get(name)
    if expected is None or login.login != name:
        raise web.HTTPUnauthorized
    if not hmac.compare_digest(login.password.encode(), expected.encode()):
        raise web.HTTPUnauthorized
    return accounts[name]


if __name__ == "__main__":
    app = web.Application()
    app.add_routes(routes)
    web.run_app(app, port=PORT, print=None)
