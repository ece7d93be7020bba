"""Webhooks and Slack against a real HTTP server; the reference library of Standard Webhooks verifies signatures."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from standardwebhooks import Webhook, WebhookVerificationError
from yarl import URL

from tests.harness.identity.certificate_authority import Authority, pem
from tests.unit.operator.notifications.messages_made import PLACE, message
from tieline_api.handlers import OPERATIONS
from tieline_core.resources.notification_channels import WebhookChannel
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.notifications import http_post, slack, webhook
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.reconcilers.notification.messages import Phase
from tieline_protocol.egress import PUBLIC_ONLY, Egress

SECRET = f"whsec_{base64.b64encode(b'0123456789abcdef0123456789abcdef').decode()}"
LOOPBACK = Egress.parse(allowed=["127.0.0.0/8"])


class Receiver:
    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay = 0.0

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.read()))
        await asyncio.sleep(self.delay)
        return web.Response(status=self.status, headers=self.headers, text="t0ken")


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    there = Receiver()
    app = web.Application()
    app.router.add_post("/hook/{token}", there.handle)
    async with TestServer(app) as server:
        yield there, str(server.make_url("/hook/t0ken"))


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=LOOPBACK.connector()) as session:
        yield session


def channel(url: str) -> WebhookChannel:
    return WebhookChannel.model_validate({"url": url, "secretRef": {"name": "signing"}})


async def test_the_reference_library_verifies_a_webhook(
    receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    there, url = receiver
    sent = message(Phase.RESOLVED)
    await webhook.send(session, channel(url), SECRET, sent)
    ((headers, body),) = there.requests
    verified = Webhook(SECRET).verify(body, headers)
    assert headers["webhook-id"] == sent.id
    assert verified["type"] == "deploy_failed.resolved"
    assert verified["data"]["project"] == {"id": PLACE.project_id, "name": "Order sync"}
    assert verified["data"]["since"] == "2026-11-21T12:00:00Z"
    assert verified["data"]["until"] == "2026-11-21T12:05:00Z"
    other = f"whsec_{base64.b64encode(b'another-secret-another-secret').decode()}"
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)


async def test_a_repeated_webhook_has_the_same_id_and_a_signature_of_its_own_time(
    receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    there, url = receiver
    for moment in (1000.0, 2000.0):
        await webhook.send(session, channel(url), SECRET, message(), clock=partial(float, moment))
    (first, _), (second, _) = there.requests
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-signature"] != second["webhook-signature"]


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64!", "password"])
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    if secret == "password":
        assert webhook.key_of(secret)
        return
    with pytest.raises(DeliveryError) as caught:
        webhook.key_of(secret)
    assert caught.value.reason == "SecretInvalid"
    assert "not base64" not in caught.value.message


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410, 429, 500, 503])
async def test_any_other_answer_is_a_failure_that_names_the_host_alone(
    status: int, receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    there, url = receiver
    there.status, there.headers = status, {"Retry-After": "77", "Location": "http://127.0.0.1/x"}
    with pytest.raises(DeliveryError) as caught:
        await slack.send(session, url, message())
    assert (caught.value.reason, caught.value.retry_after) == ("Refused", 77.0)
    assert str(status) in caught.value.message
    assert "t0ken" not in caught.value.message
    assert len(there.requests) == 1


@pytest.mark.parametrize(
    ("pause", "seconds"),
    [
        ("nan", None),
        ("-1", 0.0),
        ("31536000", 3600.0),
        ("inf", 3600.0),
        ("Wed, 25 Nov 2026 12:00:00 GMT", None),
    ],
)
async def test_a_pause_that_a_receiver_asks_for_is_a_bounded_number(
    pause: str, seconds: float | None, receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    there, url = receiver
    there.status, there.headers = 429, {"Retry-After": pause}
    with pytest.raises(DeliveryError) as caught:
        await slack.send(session, url, message())
    assert caught.value.retry_after == seconds


async def test_a_certificate_that_nobody_trusts_is_named_as_the_reason(tmp_path: Path) -> None:
    certificate, key = Authority().issue("127.0.0.1")
    (tmp_path / "chain.pem").write_text(certificate + pem(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem")
    server = TestServer(web.Application())
    await server.start_server(ssl=context)
    try:
        async with aiohttp.ClientSession(connector=LOOPBACK.connector()) as session:
            with pytest.raises(DeliveryError) as caught:
                await slack.send(session, f"https://127.0.0.1:{server.port}/t0ken", message())
    finally:
        await server.close()
    assert caught.value.reason == "CertificateRefused"
    assert "t0ken" not in caught.value.message


async def test_a_slow_receiver_is_given_up(
    receiver: tuple[Receiver, str], session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, url = receiver
    there.delay = 5.0
    monkeypatch.setattr(http_post, "TIMEOUT", aiohttp.ClientTimeout(total=0.1))
    with pytest.raises(DeliveryError) as caught:
        await slack.send(session, url, message())
    assert caught.value.reason == "TimedOut"


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:1/t0ken", "Unreachable"), ("http://[::1/t0ken", "UrlWrong"), ("t0ken", "UrlWrong")],
)
async def test_what_cannot_be_reached_says_so(url: str, reason: str, session: aiohttp.ClientSession) -> None:
    with pytest.raises(DeliveryError) as caught:
        await slack.send(session, url, message())
    assert caught.value.reason == reason
    assert "t0ken" not in caught.value.message


async def test_an_address_within_the_cluster_is_refused(receiver: tuple[Receiver, str]) -> None:
    there, url = receiver
    async with aiohttp.ClientSession(connector=PUBLIC_ONLY.connector()) as session:
        with pytest.raises(DeliveryError) as caught:
            await webhook.send(session, channel(url), SECRET, message())
    assert caught.value.reason == "AddressRefused"
    assert there.requests == []


async def test_slack_gets_text_that_mentions_nobody(
    receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    there, url = receiver
    hostile = replace(PLACE, project_title="<!channel> & co")
    await slack.send(session, url, message(place=hostile, detail="<http://evil|click> " + "x" * 2000))
    ((_, body),) = there.requests
    shown: dict[str, Any] = json.loads(body)
    assert shown.keys() == {"text", "mrkdwn", "unfurl_links", "unfurl_media"}
    assert (shown["unfurl_links"], shown["unfurl_media"]) == (False, False), "nothing of a link is shown"
    assert shown["text"].startswith(
        "\N{LARGE RED CIRCLE} Deploy failed: &lt;!channel&gt; &amp; co / production\n"
    )
    assert "<" not in shown["text"]
    long = replace(message(), detail="&" * 2000)
    assert len(str(slack.payload(long)["text"])) <= 3000


async def test_slack_shows_names_and_errors_as_they_are(
    receiver: tuple[Receiver, str], session: aiohttp.ClientSession
) -> None:
    """Markup in them would make a part of a message look like one of ours, or hide it."""
    there, url = receiver
    hostile = replace(PLACE, project_title="*_`~bold~`_*", project="my_order_sync")
    await slack.send(session, url, message(place=hostile, detail="```\n<!here> <@U1> <#C1>"))
    ((_, body),) = there.requests
    shown: dict[str, Any] = json.loads(body)
    assert shown["mrkdwn"] is False, "Slack reads no markup"
    assert "*_`~bold~`_*" in shown["text"]
    assert "my_order_sync" in shown["text"], "commands can be copied"
    assert "<" not in shown["text"]


async def test_a_message_says_what_where_since_when_and_what_next() -> None:
    text = message().text
    for part in (
        "Deploy failed: Order sync / production",
        "acme/order-sync",
        "Since: 2026-11-21T12:00:00Z",
        "VersionRefused",
        "Next: Correct what the message names, and deploy again.",
        "kubectl -n acme describe project.tieline.dev order-sync",
    ):
        assert part in text
    resolved = message(Phase.RESOLVED).text
    assert resolved.startswith("Resolved: Deploy failed: Order sync / production")
    assert "Until: 2026-11-21T12:05:00Z" in resolved
    assert "Next:" not in resolved
    assert "It is over. It was: " in resolved


@pytest.mark.parametrize("event", NotificationEvent)
def test_the_path_in_a_message_is_one_of_the_rest_api(event: NotificationEvent) -> None:
    path = URL(message(event=event).path)
    known = {
        re.sub(r"\{\w+\}", "*", one.path): one.query
        for one in OPERATIONS
        if one.method == "GET" and "{organisation_id}" in one.path
    }
    pattern = path.path.replace(PLACE.organisation_id, "*").replace(PLACE.project_id, "*")
    assert pattern in known
    query = known[pattern]
    assert set(path.query) <= set(query.model_fields if query else ())


def test_a_message_about_many_failures_does_not_lead_past_events_which_end_as_dead() -> None:
    query = dict(URL(message(event=NotificationEvent.FAILURE_RATE).path).query)
    assert query == {"project_env": PLACE.environment}


def test_a_message_about_dead_letters_leads_to_those_that_are_left() -> None:
    query = dict(URL(message(event=NotificationEvent.RUN_DEAD).path).query)
    assert query == {
        "status": "dead",
        "discarded": "false",
        "replayed": "false",
        "project_env": PLACE.environment,
    }
