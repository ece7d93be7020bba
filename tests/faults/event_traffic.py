"""Events of one project of the history: published through its pods, judged by the records of shop and engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

from tests.faults.clients import Rest, WriteResult
from tests.faults.events.verdict import EventVerdict, Publication, Seen, judge_events
from tests.faults.model import Outcome, Project
from tests.faults.rest_worker import RestWorker
from tests.faults.worker import code
from tests.harness.cluster.deployed_platform import http
from tests.harness.processes.nats_server import NatsServer
from tieline_protocol.event_streams import EventStreams, subject_parts

CHAINS = 4
_ASK_SECONDS = 15.0
_STORED_SECONDS = 30.0

EVENTS = """
import asyncio, os
from tieline import Event, Reject, Retry

QUICK = Retry(attempts=40, first=0.5, longest=5)


async def record(ctx, what, **told):
    body = {"what": what, "pid": os.environ.get("HOSTNAME", "?"), **told}
    answer = await ctx.fetch("desk", "/effects", method="POST", json=body)
    answer.raise_for_status()


async def work(ctx, run, content):
    told = {"run": run, "number": content["number"]}
    await record(ctx, "begun", **told)
    for name in content.get("steps", ()):
        used = []

        async def effect():
            used.append(ctx.idempotency_key)
            await record(ctx, "effect", step=ctx.idempotency_key, **told)
            return name

        await ctx.step(name, effect)
        if used:
            await record(ctx, "recorded", step=used[0], **told)
    await asyncio.sleep(content.get("seconds", 0))
    if sleep := content.get("sleep"):
        await ctx.sleep("cool off", sleep)
    if content.get("reject"):
        raise Reject("nobody wants it")
    await record(ctx, "done", **told)


@integration.webhook("orders", delivery="queued", retry=QUICK)
async def orders(ctx: Context, request: Request) -> None:
    await work(ctx, ctx.execution_id, await request.json())


@integration.event("free", retry=QUICK)
async def free(ctx: Context, event: Event) -> None:
    await work(ctx, event.run_id, event.payload)


@integration.event("keyed", key="key", retry=QUICK)
async def keyed(ctx: Context, event: Event) -> None:
    await work(ctx, event.run_id, event.payload)


@integration.webhook("publish")
async def publish(ctx: Context, request: Request) -> dict:
    asked = await request.json()
    return {"runId": await ctx.publish(asked["task"], asked["payload"], delay=asked.get("delay"))}
"""


class EventWorker(RestWorker):
    """Its one project stays, is deployed again now and then, and gets events all the time."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.most_projects = 1
        self.publications: list[Publication] = []
        self._events = itertools.count(1)
        self._url = ""

    def step(self) -> None:
        mine = self.projects()
        if not mine:
            self._note("create project", self._create())
            return
        chosen = self.rng.random()
        if chosen < 0.06:
            self._note("deploy", self._deploy(mine[0]))
        elif chosen < 0.1:
            self._note("set key", self._set_key(mine[0]))
        url = self._look_up(mine[0])
        if not url:
            return
        with ThreadPoolExecutor(CHAINS + 1) as pool:
            chains = [f"chain-{number}" for number in range(CHAINS)]
            list(pool.map(lambda chain: self._next_of(chain, url), self.rng.sample(chains, 2)))
            list(pool.map(lambda _: self._order(url), range(self.rng.randint(1, 3))))

    def deploy(self, project: Project, text: str) -> WriteResult:
        files = [{"filename": "main.py", "content": code(text) + EVENTS}]
        body = {"files": files, "labels": {"says": text}}
        return self.rest("PUT", f"{self._path(project)}/deploy", body)

    def publish(self, task: str, delay: float | None = None, *, chain: str | None = None) -> str | None:
        """The run of one more event, of a chain if it is named, if it was accepted."""
        mine = self.projects()
        assert mine, "The project with events was not made in time"
        payload: dict[str, Any] = {"number": next(self._events), **({"key": chain} if chain else {})}
        body = {"task": task, "payload": payload, "delay": delay}
        return self._ask(payload, f"{self._look_up(mine[0])}/publish", body, chain=chain)

    def seen(self, rest: Rest, engine: NatsServer, effects: list[dict[str, Any]]) -> Seen | None:
        """What became of its events; None while there is no project, or it cannot be told."""
        mine = self.projects()
        if not mine:
            return None
        parts = self.parts[mine[0].name]
        statuses: dict[str, list[str]] = {}
        for status in ("succeeded", "dead"):
            after = ""
            while True:
                page = rest("GET", f"/projects/{parts.project}/runs?status={status}&first=200{after}")
                if page.outcome is not Outcome.DONE:
                    return None
                for run in page.body["items"]:
                    statuses.setdefault(run["id"], []).append(status)
                if not page.body.get("next"):
                    break
                after = f"&after={page.body['next']}"
        letters, left = frozenset[str](), dict[str, int]()
        # A project that was not deployed yet has no account in the engine.
        if any(one.accepted for one in self.publications):
            letters, left = asyncio.run(_stored(engine, EventStreams(rest.organisation, parts.environment)))
        return Seen(list(self.publications), list(effects), statuses, letters, left)

    def judged(self, rest: Rest, engine: NatsServer, effects: list[dict[str, Any]]) -> EventVerdict:
        """What is wrong with its events."""
        try:
            seen = self.seen(rest, engine, effects)
        except (OSError, TimeoutError) as error:
            return EventVerdict([f"The event engine cannot be read: {error!r}"], {})
        if seen is None:
            return EventVerdict(["The runs of the project with events cannot be read"], {})
        return judge_events(seen)

    def _look_up(self, project: Project) -> str:
        found = self.rest("GET", self._path(project))
        if found.outcome is Outcome.DONE:
            # Another Service has another address.
            self._url = found.body["environments"][0].get("publicUrl") or self._url
        return self._url

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {"number": next(self._events)}
        if self.rng.random() < 0.6:
            content["steps"] = [self.rng.choice(("fetch", "book")) for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.3:
            content["seconds"] = self.rng.choice((0.2, 1, 10))
        if self.rng.random() < 0.1:
            content["sleep"] = self.rng.choice((1, 20))
        return content

    def _next_of(self, chain: str, url: str) -> None:
        content = self._content() | {"key": chain}
        if self.rng.random() < 0.03:
            content["reject"] = True
        self._ask(content, f"{url}/publish", {"task": "keyed", "payload": content}, chain=chain)

    def _order(self, url: str) -> None:
        content = self._content()
        headers = {"Webhook-Id": f"order-{content['number']}"}
        self._ask(content, f"{url}/orders", content, headers=headers)

    def _ask(
        self,
        content: dict[str, Any],
        url: str,
        body: dict[str, Any],
        *,
        chain: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> str | None:
        began, run, accepted = time.monotonic(), None, False
        try:
            answer = http("POST", url, body=body, headers=headers or {}, timeout=_ASK_SECONDS)
            if answer.status in (200, 202):
                run, accepted = json.loads(answer.body).get("runId"), True
            else:
                self.log.note(f"    {url}: {answer.status} {answer.body[-200:]!r}")
        except (OSError, HTTPException, ValueError) as error:
            self.log.note(f"    {url}: {error!r}")
        self.log.counts["event accepted" if accepted else "event not answered"] += 1
        self.publications.append(
            Publication(content["number"], began, time.monotonic(), accepted, run, chain)
        )
        return run


async def _stored(engine: NatsServer, streams: EventStreams) -> tuple[frozenset[str], dict[str, int]]:
    """Runs with dead letters, and messages that are left in the queues."""
    async with asyncio.timeout(_STORED_SECONDS):
        # It tries again for ever, also where the account is missing.
        client = await engine.environment(streams, error_cb=_quiet, connect_timeout=5)
    try:
        jetstream = client.jetstream()
        left = {
            stream: (await jetstream.stream_info(stream)).state.messages
            for stream in (streams.queue, streams.later)
        }
        found = await jetstream.stream_info(streams.dead_letters, subjects_filter=streams.dead("*"))
        return frozenset(subject_parts(subject)[0] for subject in found.state.subjects or {}), left
    finally:
        await client.close()


async def _quiet(_error: Exception) -> None:
    """A server is away on purpose."""
