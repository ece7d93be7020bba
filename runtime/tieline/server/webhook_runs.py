"""Runs: one execution of a webhook's function, from request to answer."""

import asyncio
import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.configuration.users import ConfiguredUsers, Users
from tieline.connectors.caller import Connectors
from tieline.context import Context, RunMetadata, WebhookDelivery
from tieline.errors import LimitReachedError, reached_limit, reason
from tieline.events.publisher import Publisher
from tieline.events.queue import NoEvents
from tieline.execution.background import BackgroundWork
from tieline.execution.fair_limiter import FairLimiter, NoSlotError, Slot
from tieline.execution.timeouts import Deadlines
from tieline.execution.ulids import new_ulid
from tieline.integration import Webhook
from tieline.server import handshakes
from tieline.server.admission import Admission
from tieline.server.graceful_drain import GracefulDrain
from tieline.server.invoker import Invoker
from tieline.server.path_parameters import check_path
from tieline.server.queued_requests import QueuedRequests
from tieline.server.refused_error import RefusedError
from tieline.server.repeated_requests import RepeatedRequests, request_key
from tieline.server.request_bodies import (
    bounded,
    put_back,
    read_bounded,
    reads_json_after_a_mark,
    unreadable,
)
from tieline.server.responses import EXECUTION_ID_HEADER, answer, error_answer, fixed_answer
from tieline.server.run_history import DirectRun, DirectRuns, RecordsTaker
from tieline.server.sender_certificates import SenderCertificates, fetch_by
from tieline.server.webhook_signatures import Sender
from tieline.state.documents import Documents, MemoryDocuments
from tieline.sync import SyncContext, SyncRequest
from tieline.telemetry import logs
from tieline.telemetry.logs import current_activation
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.spans import Span, Tracer, Value

logger = logging.getLogger("tieline.run")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What runs may take: bytes, runs at once, and seconds for one."""

    max_body: int
    max_runs: int
    run_timeout: float
    max_runs_per_activation: int | None = None
    """Runs at once of one activation; None is nine tenths of all."""
    max_waiting: int = 0
    """Requests of one activation that may wait for their turn (ten times as many in all); 0: they are refused."""
    wait_timeout: float = 10.0
    """How long a request waits for its turn."""
    max_background: int = 1000
    """Pieces of background work that wait or run."""
    background_timeout: float = 300.0


class Runner:
    """Runs webhooks within the limits. Answers every request, and logs one line for each run."""

    def __init__(
        self,
        *,
        limits: Limits,
        configuration: Configuration,
        client: aiohttp.ClientSession,
        run_metadata: RunMetadata,
        users: Users | None = None,
        tracer: Tracer | None = None,
        documents: Documents | None = None,
        publisher: Publisher | None = None,
        history: RecordsTaker | None = None,
        connectors: Connectors | None = None,
    ) -> None:
        self.leaving = GracefulDrain()
        self.counts = RunMetrics(project=run_metadata.project.name, environment=run_metadata.environment.name)
        self._limits = limits
        self._deadlines = Deadlines(limits.run_timeout)
        self._admission = Admission(
            configuration,
            users or ConfiguredUsers(configuration),
            public_url=run_metadata.public_url,
            certificates=SenderCertificates(fetch_by(client)),
        )
        self._tracer = tracer or Tracer(_let_go, configuration.redactor)
        self.turns = FairLimiter(
            most=limits.max_runs,
            share=limits.max_runs_per_activation,
            queue_per_key=limits.max_waiting,
            wait_timeout=limits.wait_timeout,
        )
        threads = ThreadPoolExecutor(max_workers=max(limits.max_runs, 1), thread_name_prefix="run")
        direct_runs = DirectRuns(
            history, configuration, redact=self._tracer.redact, version=run_metadata.version
        )
        self.background = BackgroundWork(
            turns=self.turns,
            tracer=self._tracer,
            threads=threads,
            counts=self.counts,
            most=limits.max_background,
            timeout=limits.background_timeout,
            ended=direct_runs.background,
        )
        self.calls = Invoker(
            configuration=configuration,
            client=client,
            run_metadata=run_metadata,
            tracer=self._tracer,
            turns=self.turns,
            documents=documents or MemoryDocuments(),
            background=self.background,
            threads=threads,
            publisher=publisher or Publisher(NoEvents(), {}),
            direct_runs=direct_runs,
            connectors=connectors,
        )
        self._repeated = RepeatedRequests(self.calls.publisher)
        self._queued = QueuedRequests(self.calls.publisher, self._repeated, lambda: configuration.redactor)

    def close(self) -> None:
        """Let go of the threads; those that still run are not waited for."""
        self.calls.close()

    def may_be_handshake(self, webhook: Webhook, request: web.Request) -> bool:
        """Whether a request whose method the webhook does not take can be a handshake of its sender."""
        return self._admission.may_be_handshake(webhook, request)

    async def run(self, webhook: Webhook, request: web.Request) -> web.StreamResponse:
        """The answer of ``webhook`` to ``request``; for the user in its path, if there is one.

        To be called in a task of its own, as aiohttp does: it says there which execution its log lines belong to.
        """
        self.leaving.request_arrived()
        execution_id = new_ulid()
        logs.begin_run(execution_id)
        started = time.perf_counter()
        # Those of an activation that has many waiting wait for those of the others.
        key = request.match_info.get("external_id") or ""
        if self.turns.take(key) or await self._waited(key):
            response = await self._traced(webhook, request, execution_id, Slot(self.turns, key))
        else:
            response = _busy(execution_id)
        if not response.prepared:
            response.headers[EXECUTION_ID_HEADER] = execution_id
            if self.leaving.begun:
                response.force_close()
        logs.end_run()
        seconds = time.perf_counter() - started
        self.counts.add("webhook", webhook.name, _outcome(response.status), seconds)
        if logs.run_log:
            logs.run_log.write(
                webhook=webhook.name,
                method=request.method,
                path=request.path,
                status=response.status,
                seconds=seconds,
            )
        return response

    async def _waited(self, key: str) -> bool:
        """Wait for a turn; False when there is none."""
        try:
            await self.turns.wait(key)
        except NoSlotError:
            return False
        return True

    async def _traced(
        self, webhook: Webhook, request: web.Request, execution_id: str, slot: Slot
    ) -> web.StreamResponse:
        """One run is one trace, or a part of the caller's."""
        run: DirectRun | None = None
        status = 0
        try:
            with self._tracer.run(
                webhook.name, execution_id=execution_id, task=webhook.name, headers=request.headers
            ) as span:
                resource = request.match_info.route.resource
                span.attributes["http.request.method"] = request.method
                span.attributes["http.route"] = resource.canonical if resource else ""
                if webhook.queues(request.method):
                    # The run has a span of its own, where one was accepted.
                    span.attributes["messaging.operation.type"] = "send"
                else:
                    run = self.calls.direct_runs.begin(execution_id, "webhook", webhook.name, span)
                response = await self._limited(webhook, request, execution_id, span, slot, run)
                span.attributes["http.response.status_code"] = status = response.status
                if status >= 500 and span.error is None:
                    span.fail(str(status))
        except BaseException as error:
            if run is not None:
                run.error = error
            raise
        finally:
            if run is not None:
                self.calls.direct_runs.end(run, status)
        return response

    async def _limited(
        self,
        webhook: Webhook,
        request: web.Request,
        execution_id: str,
        span: Span,
        slot: Slot,
        run: DirectRun | None,
    ) -> web.StreamResponse:
        deadline = self._deadlines.begin()
        try:
            with deadline:
                if not bounded(request, self._limits.max_body):
                    await read_bounded(request, self._limits.max_body)
                check_path(request)
                activation, sender = await self._admission.admit(webhook, request)
                if handshake := await self._handshake(webhook, request, sender):
                    return handshake
                _tell_activation(span, activation)
                if webhook.queues(request.method):
                    return await self._queued.store(webhook, request, execution_id, activation, span, sender)
                return await self._call(webhook, request, execution_id, activation, sender, slot, run)
        except web.HTTPException as raised:
            return _plain_response(raised)
        except RefusedError as refused:
            return _refused(refused, execution_id)
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired:
                return self._timed_out(webhook, execution_id, run)
            if unread := unreadable(error):
                logger.warning("Webhook %s was called in vain: %s", webhook.name, unread)
                return _refused(unread, execution_id)
            span.fail(error)
            if run is not None:
                run.error = error
            if (limit := reached_limit(error)) is not None:
                logger.warning("Webhook %s ended: %s", webhook.name, limit)
                return _without_room(webhook, limit, execution_id)
            logger.exception("Webhook %s failed: %s", webhook.name, reason(error))
            return error_answer(
                500,
                "execution_failed",
                f"The webhook {webhook.name!r} failed; its log has the reason under this execution's id",
                execution_id=execution_id,
            )
        finally:
            slot.release()

    async def _handshake(
        self, webhook: Webhook, request: web.Request, sender: Sender
    ) -> web.StreamResponse | None:
        """The answer to a handshake that the code need not answer. Raises RefusedError."""
        found = await handshakes.answer_of(sender, request, self._admission.certificates)
        if found is None and request.method not in webhook.methods:
            raise wrong_method(webhook, request)
        return found

    async def _call(
        self,
        webhook: Webhook,
        request: web.Request,
        execution_id: str,
        activation: Activation,
        sender: Sender,
        slot: Slot,
        run: DirectRun | None,
    ) -> web.StreamResponse:
        """What the function answers."""
        if run is not None:
            run.admit(activation)
            if run.keeps_input:
                await run.keep(request)
        key = request_key(webhook, activation, sender)
        is_duplicate = key is not None and await self._repeated.knows(key)
        delivery = WebhookDelivery(id=sender.delivery_id, is_duplicate=is_duplicate)
        tags, progress = (None, None) if run is None else (run.tags, run.progress)
        context = self.calls.context(
            execution_id, activation, delivery=delivery, tags=tags, progress=progress
        )
        if webhook.is_async:
            reads_json_after_a_mark(request)
            response = answer(await webhook.handler(*(context, request)[: webhook.arguments]))
        else:
            response = answer(await self._call_in_thread(webhook, request, context, slot))
        if key is not None and response.status < 500:
            # Not before: a request that failed has to run when it is sent again.
            await self._repeated.remember(key, sender)
        return response

    def _timed_out(self, webhook: Webhook, execution_id: str, run: DirectRun | None) -> web.Response:
        seconds = self._limits.run_timeout
        if run is not None:
            run.error = TimeoutError(f"stopped after {seconds:g} seconds")
        logger.error("Webhook %s was stopped after %g seconds", webhook.name, seconds)
        return error_answer(
            504,
            "execution_timed_out",
            f"The webhook {webhook.name!r} did not answer within {seconds:g} seconds",
            execution_id=execution_id,
        )

    async def _call_in_thread(
        self, webhook: Webhook, request: web.Request, context: Context, slot: Slot
    ) -> Any:
        content = await request.read()
        if request.content_type.startswith("multipart/"):
            put_back(request, content)
        loop = asyncio.get_running_loop()
        arguments = (SyncContext(context, loop), SyncRequest(request, content, loop))
        return await self.calls.in_thread(slot, webhook.handler, *arguments[: webhook.arguments])


def wrong_method(webhook: Webhook, request: web.Request) -> RefusedError:
    """The answer to a method that the webhook does not take."""
    allowed = ", ".join(sorted(webhook.methods))
    return RefusedError(
        405,
        "method_not_allowed",
        f"The webhook {webhook.name!r} does not take {request.method}, only {allowed}",
        headers={"Allow": allowed},
    )


def _tell_activation(span: Span, activation: Activation) -> None:
    if activation.id:
        current_activation.set(activation.id)
        span.tell(activation=activation.id, **_user(activation))


def _user(activation: Activation) -> dict[str, Value]:
    return {"user": activation.user.external_id} if activation.user else {}


def _let_go(_: Span) -> None:
    """Where spans go when nobody wants them."""


def _outcome(status: int) -> Outcome:
    if status == 504:
        return "timed_out"
    if status >= 500:
        return "failed"
    return "refused" if status == 429 else "succeeded"


def _refused(refused: RefusedError, execution_id: str) -> web.Response:
    if refused.answer is not None:
        return fixed_answer(refused.answer)
    return error_answer(
        refused.status, refused.code, str(refused), execution_id=execution_id, headers=refused.headers
    )


def _plain_response(raised: web.HTTPException) -> web.Response:
    """The answer that code raised, as one to return (aiohttp is about to refuse returned exceptions)."""
    headers = raised.headers.copy()
    headers.pop("Content-Length", None)
    return web.Response(status=raised.status, reason=raised.reason, body=raised.body, headers=headers)


def _without_room(webhook: Webhook, limit: LimitReachedError, execution_id: str) -> web.Response:
    return error_answer(
        503,
        "limit_reached",
        f"The webhook {webhook.name!r} got no room in the limits of its connection template {limit.template!r} "
        f"({limit.limits}): try again later",
        execution_id=execution_id,
        headers={"Retry-After": str(math.ceil(limit.retry_after))},
    )


def _busy(execution_id: str) -> web.Response:
    return error_answer(
        429,
        "too_many_runs",
        "As many runs as this pod may have are active; try again in a moment",
        execution_id=execution_id,
        headers={"Retry-After": "1"},
    )
