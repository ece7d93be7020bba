"""What there is to see: projects with environments in some state, runs that pods have reported, and their spans."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tests.integration.api.engine_objects import make_streams, report, with_engine
from tests.integration.api.objects import make_template
from tests.integration.api.pod_api.test_documents import _send as as_pod
from tests.integration.api.pods import account_token
from tests.unit.api.runs.run_records import record
from tests.unit.api.traces.otlp_requests import attribute, body_json, span_json
from tieline_core.engine.state_streams import StatePlace
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import workload_name
from tieline_protocol.run_records import RunError, RunRecord, StepRecord, UpstreamAnswer

SPANS = "/internal/v1/traces"
SECOND = 1_000_000_000


@dataclass
class Scene:
    """Makes what there is to see, as operator and pods would."""

    admin: Client
    kubectl: Kubectl
    organisation: Organisation
    engine: NatsServer
    server: Server

    def project(self, name: str, code: str = "print('one')\n", *, system: str = "") -> dict[str, Any]:
        """A project whose environment is deployed, with streams for its runs, and a system by that name."""
        made: dict[str, Any] = self.admin.ok("POST", "/projects", {"name": name})
        if system:
            make_template(self.admin, project=made, name=system)
        files = [{"filename": "main.py", "content": code}]
        self.admin.ok("PUT", f"/projects/{made['id']}/deploy", {"files": files, "versionName": "v1"})
        environment = made["environments"][0]["id"]
        self.apart(lambda: make_streams(self.engine, self.organisation.id, environment))
        return made

    def environment_is(self, project: dict[str, Any], **status: Any) -> None:
        """What the operator says of the project's environment."""
        of = project["environments"][0]
        now = _text(datetime.now(UTC))
        workload = workload_name(project["id"].lower(), of["name"])
        item = {
            "name": of["name"],
            "id": of["id"],
            "workload": workload,
            "createdAt": now,
            "updatedAt": now,
            **status,
        }
        version = self.admin.ok("GET", f"/projects/{project['id']}/versions")["items"][0]["id"].lower()
        if status["status"] == "running":
            item |= {"desiredVersion": version, "version": version, "rollout": "complete"}
        patch = json.dumps({"status": {"observedGeneration": 1000, "environments": [item]}})
        self.kubectl(
            *("patch", "project", project["id"].lower(), "--subresource=status", "--type=merge", "-p", patch),
            namespace=self.organisation.namespace,
        )

    def runs(self, project: dict[str, Any], *records: RunRecord) -> None:
        """What pods report; returns when the API knows of it."""
        environment = project["environments"][0]["id"]
        self.apart(lambda: report(self.engine, self.organisation.id, environment, *records))
        wanted = {one.id for one in records}

        def known() -> bool:
            found = self.admin.ok("GET", f"/projects/{project['id']}/runs?first=200")["items"]
            return wanted <= {run["id"] for run in found}

        eventually("the runs", known)

    def dead(
        self, project: dict[str, Any], run: str = "", message: str = "the shop answered 503", **fields: Any
    ) -> str:
        """A run that failed until it was given up, with what the other side said."""
        run = run or new_id()
        now = time.time()
        trace = run_trace(run)
        error = RunError(
            type="UpstreamError",
            message=message,
            upstream=UpstreamAnswer(status=503, body='{"error": "closed for today"}'),
        )
        step = StepRecord(name="fetch order", occurrence=1, started_at=now - 30, ended_at=now - 29.6)
        common = {
            **{"kind": "event", "task": "order.created", "attempts": 3, "version": "v1", "user": "ann"},
            **{"queued_at": now - 60, "trace_id": trace, **fields},
        }
        records = [
            record(
                run,
                "queued",
                0,
                queued_at=common["queued_at"],
                kind=common["kind"],
                task=common["task"],
                at=now - 60,
            )
        ]
        for attempt in (1, 2, 3):
            begun = now - 50 + attempt * 10
            end = {"started_at": begun, "ended_at": begun + 0.84, "error": error, "steps": (step,)}
            last = (
                {"input": b'{"order": 1017, "total": "49.90"}'}
                if attempt == 3
                else {"next_attempt_at": begun + 10}
            )
            state = "dead" if attempt == 3 else "waiting"
            records.append(record(run, "running", attempt, at=begun, started_at=begun, **common))
            records.append(record(run, state, attempt, at=begun + 0.84, **end, **last, **common))
        self.runs(project, *records)
        return run

    def succeeded(self, project: dict[str, Any], *, ago: float = 30, **fields: Any) -> RunRecord:
        """A record of a run that went well."""
        end = time.time() - ago
        common = {"attempts": 3, "version": "v1", "queued_at": end - 1, **fields}
        return record("", "succeeded", 1, at=end, started_at=end - 0.6, ended_at=end, **common)

    def late(self, project: dict[str, Any], schedule: str) -> None:
        """A schedule of the deployed code that was due each hour for two days, and did not run."""
        now = datetime.now(UTC)
        self.environment_is(project, status="running", deployedAt=_text(now - timedelta(days=3)))
        settled = {"settled": _text(now - timedelta(days=2)), "times": "0 * * * * UTC"}
        self.schedule_record(project, schedule, settled)

    def registers(self, project: dict[str, Any], *schedules: dict[str, Any]) -> int:
        """What a pod of the newest version tells of the schedules of its code; the answer's status."""
        token = account_token(self.kubectl, self.organisation, project)
        version = self.admin.ok("GET", f"/projects/{project['id']}/versions")["items"][0]["id"].lower()
        body = {"version": version, "schedules": list(schedules)}
        return as_pod(self.admin, token, "PUT", "/schedules", body).status

    def schedule_record(self, project: dict[str, Any], schedule: str, record: Any) -> None:
        """What a pod writes down of a schedule."""
        place = StatePlace.of_schedules(self.organisation.id, project["environments"][0]["id"])

        async def publish(client: Nats) -> None:
            await client.jetstream().publish(place.subject(schedule), json.dumps(record).encode())

        self.apart(lambda: with_engine(self.engine, publish))

    def spans(self, project: dict[str, Any], run: str, *more: dict[str, Any]) -> None:
        """The spans of a run's trace: the task, a step, and a request of it that failed; and any others."""
        trace, start = run_trace(run), int(time.time() - 20) * SECOND
        of_run = [attribute("executionId", run), attribute("task", "order.created")]
        reads, writes = ([attribute("http.request.method", method)] for method in ("GET", "POST"))
        refused = {"code": 2, "message": "503 Service Unavailable"}
        made = [
            span(1, trace, None, "order.created", start, 840, attributes=of_run),
            span(2, trace, 1, "step fetch order", start + 20_000_000, 400),
            span(3, trace, 2, "GET /orders/1017", start + 40_000_000, 350, attributes=reads),
            span(4, trace, 1, "POST /orders", start + 430_000_000, 390, attributes=writes, status=refused),
            *({**each, "traceId": trace} for each in more),
        ]
        pod = Client(
            self.server.url, account_token(self.kubectl, self.organisation, project), self.organisation.id
        )
        sent = pod.at(SPANS, method="POST", raw=body_json(*made), Content_Type="application/json")
        assert sent.status == 200, sent.raw
        assert self.server.platform.traces.store.flush()

    def apart(self, work: Any) -> None:
        """Runs it in a thread of its own: this one belongs to the browser's event loop."""
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work).result(60)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def run_trace(run: str) -> str:
    """The id of a trace for a run."""
    return run.encode().hex()[-32:]


def span(
    number: int, trace: str, parent: int | None, name: str, start: int, milliseconds: int, **fields: Any
) -> dict[str, Any]:
    """A span that began at ``start`` (nanoseconds) and took so long."""
    made = span_json(
        number,
        traceId=trace,
        spanId=f"{trace[-12:]}{number:04x}",
        name=name,
        startTimeUnixNano=str(start),
        endTimeUnixNano=str(start + milliseconds * 1_000_000),
        **fields,
    )
    return made if parent is None else {**made, "parentSpanId": f"{trace[-12:]}{parent:04x}"}
