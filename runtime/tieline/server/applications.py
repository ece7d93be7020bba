"""The two HTTP applications of a pod: its webhooks, and what the kubelet asks."""

import re
from collections.abc import Callable, Mapping
from functools import partial

from aiohttp import web

from tieline.integration import Webhook
from tieline.server.responses import error_answer
from tieline.server.webhook_runs import Runner, wrong_method
from tieline_protocol.webhook_names import most_specific_first


def webhook_application(webhooks: Mapping[str, Webhook], runner: Runner, *, max_body: int) -> web.Application:
    """``/<name>`` and ``/<name>/users/<external id>`` for each webhook; 405 for its other methods, else 404.

    ``/orders/latest`` is the webhook ``orders/latest``, where there is one, and else ``orders/{orderId}``.
    """
    application = web.Application(client_max_size=max_body)
    for webhook in (webhooks[name] for name in most_specific_first(webhooks)):
        # aiohttp's own parameters match no braces, which ids of others may have.
        own = re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", f"/{webhook.name}")
        for path in (own, f"{own}/users/{{external_id:[^/]+}}"):
            for method in webhook.methods:
                application.router.add_route(method, path, partial(runner.run, webhook))
            application.router.add_route("*", path, partial(_wrong_method, runner, webhook))
    application.router.add_route("*", "/{path:.*}", partial(_unknown, runner))
    return application


def health_application(
    *, ready: Callable[[], str | None], metrics: Callable[[], str] = lambda: ""
) -> web.Application:
    """``/livez``, ``/metrics``, and ``/readyz`` with 503 while ``ready`` returns a reason why the pod is not."""

    async def livez(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_request: web.Request) -> web.Response:
        reason = ready()
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    async def scraped(_request: web.Request) -> web.Response:
        return web.Response(text=metrics())

    application = web.Application()
    application.router.add_get("/livez", livez)
    application.router.add_get("/metrics", scraped)
    application.router.add_get("/readyz", readyz)
    return application


async def _wrong_method(runner: Runner, webhook: Webhook, request: web.Request) -> web.StreamResponse:
    if runner.may_be_handshake(webhook, request):
        # The sender's handshake has this method, which the code need not take.
        return await runner.run(webhook, request)
    refused = wrong_method(webhook, request)
    answer = error_answer(refused.status, refused.code, str(refused), headers=refused.headers)
    return _last_one(runner, answer)


async def _unknown(runner: Runner, _request: web.Request) -> web.Response:
    return _last_one(runner, error_answer(404, "not_found", "There is no such webhook"))


def _last_one(runner: Runner, answer: web.Response) -> web.Response:
    """The last answer of its connection, if the pod is about to leave."""
    if runner.leaving.begun:
        answer.force_close()
    return answer
