"""Handshakes: how senders make sure that a URL is a webhook's, before they send to it.

The presets ``slack`` and ``meta`` answer those of their senders, and the code does not run. Code answers all others,
for methods that the webhook names in ``unauthenticated``.
"""

import json

from aiohttp import web

from tieline.configuration.snapshot import Connection, Credential
from tieline.server.request_bodies import put_back
from tieline.server.webhook_signatures import Sender

VERIFY_TOKEN = "hub.verify_token"  # noqa: S105  (the name of a parameter)
_CHALLENGE = "hub.challenge"
_MAX_SLACK_BODY = 16 * 1024


def verify_token(connection: Connection) -> Credential | None:
    """The credential with Meta's verify token: a ``secret`` in the query, beside a signature of preset ``meta``."""
    if not any(
        one.scheme == "hmac" and one.options.get("preset") == "meta" for one in connection.credentials
    ):
        return None
    for one in connection.credentials:
        if one.scheme == "secret" and (one.options.get("in"), one.options.get("name")) == (
            "query",
            VERIFY_TOKEN,
        ):
            return one
    return None


def is_subscription(request: web.Request) -> bool:
    """Whether Meta asks by it for the challenge."""
    return request.method == "GET" and request.query.get("hub.mode") == "subscribe"


async def answer_of(sender: Sender, request: web.Request) -> web.Response | None:
    """The answer to a handshake whose sender is verified; None for other requests."""
    if sender.preset == "meta" and is_subscription(request):
        return _plain(request.query.get(_CHALLENGE, ""))
    if sender.preset == "slack" and request.method == "POST":
        challenge = await _slack_challenge(request)
        return None if challenge is None else _plain(challenge)
    return None


async def _slack_challenge(request: web.Request) -> str | None:
    body = await request.read()
    put_back(request, body)
    if len(body) > _MAX_SLACK_BODY or b"url_verification" not in body:
        return None
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("type") != "url_verification":
        return None
    challenge = content.get("challenge")
    return challenge if isinstance(challenge, str) else None


def _plain(text: str) -> web.Response:
    """Text that a browser does not take for a page."""
    return web.Response(
        body=text.encode("utf-8", "replace"),  # JSON can hold half a character
        content_type="text/plain",
        charset="utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
    )
