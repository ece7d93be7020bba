"""``tieline run --replay``: a recorded run on this machine, with what was recorded in place of the world."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from tests.unit.cli.commands import project, tieline
from tieline.cli.recorded_answers import NotRecordedError, RecordedClient, recorded_client
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.recordings import InvalidRecordingError, RecordedAnswer, Recording

MAIN = """\
from datetime import timedelta
from tieline import Context, Event, Integration, Retry

integration = Integration()
integration.waits_for("paid", match=["order"])


def book() -> dict:
    raise AssertionError("it is recorded")


@integration.event("order", retry=Retry(attempts=3), timeout=0.01)
async def order(ctx: Context, event: Event) -> None:
    booked = await ctx.step("book", book)
    paid = await ctx.wait_for("paid", match={"order": event.payload["id"]}, timeout=timedelta(days=1))
    await ctx.publish("paid", {"order": "other"})
    if event.payload.get("asks"):
        response = await ctx.fetch("shop", "/orders", params={"page": "1"})
        response.raise_for_status()
        ctx.log.info("Answered", orders=await response.json())
    breakpoint()
    ctx.log.info("Went on", booking=booked["id"], amount=paid.payload["amount"], run=event.run_id)
    if event.payload.get("fails"):
        raise ValueError("a bug")
"""
CONNECTIONS = """\
connections:
  shop:
    baseUrl: http://192.0.2.1:9
    credentials:
      - type: string
        authScheme: {type: api-key, apiKey: {name: X-API-Key, in: header}}
        data: {value: secret-key}
"""
RUN = "01JD3Y0000000000000000000A"
EVENT = EventMetadata(run="01JD3Y0000000000000000000B", kind="event", task="paid", queued_at=1.0)
WAIT = "wait: paid"


def step(name: str, place: int, result: Any, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "nameHash": hashed(name),
        "occurrence": 1,
        "place": place,
        "version": "v1",
        "result": json.dumps(result),
        **fields,
    }


def recording(**fields: Any) -> dict[str, Any]:
    outcome = {"wait": f"{hashed(WAIT)}-1", "event": EVENT.header(), "payload": '{"amount": 480}'}
    wait = step(WAIT, 2, {"index": "i", "since": 1.0, "until": 2.0}, outcome=outcome)
    return {
        "format": 1,
        "id": RUN,
        "kind": "event",
        "task": "order",
        "status": "dead",
        "attempt": 1,
        "queuedAt": "2026-11-21T10:00:00.000000Z",
        "version": {"name": "v1"},
        "payload": '{"id": "A-1"}',
        "steps": [step("book", 1, {"id": 7}), wait],
        "answers": [],
        "notes": [],
        **fields,
    }


def replayed(folder: Path, content: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    project(folder, {"main.py": MAIN, "connections.yaml": CONNECTIONS})
    file = folder.parent / f"{folder.name}.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return tieline("run", str(folder), "--replay", str(file), **options)


def logged(output: str, message: str) -> list[Any]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line.get("fields") for line in lines if line["message"].startswith(message)]


def test_steps_return_what_was_recorded_and_a_debugger_stops(tmp_path: Path) -> None:
    ended = replayed(tmp_path / "code", recording(), typed="p paid.payload['amount'] * 2\nc\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "960" in ended.stdout, "the debugger has the terminal, and the task's time-out does not count"
    assert logged(ended.stdout + ended.stderr, "Went on") == [{"booking": 7, "amount": 480, "run": RUN}]


def test_a_batch_is_replayed_with_its_events(tmp_path: Path) -> None:
    code = """
from tieline import Batch, Context, Event, Integration

integration = Integration()


@integration.event("order", batch=Batch(10))
async def order(ctx: Context, events: list[Event]) -> None:
    ctx.log.info("Went on", events=[one.payload for one in events])
"""
    member = [{"run": RUN, "queued_at": 1.0}, {"id": "A-1"}]
    folder = project(tmp_path / "code", {"main.py": code, "connections.yaml": CONNECTIONS})
    file = tmp_path / "run.json"
    file.write_text(json.dumps(recording(payload=json.dumps({"~batch": [member]}), steps=[])))
    ended = tieline("run", str(folder), "--replay", str(file))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert logged(ended.stdout + ended.stderr, "Went on") == [{"events": [{"id": "A-1"}]}]


def test_a_run_that_fails_again_says_so(tmp_path: Path) -> None:
    content = recording(payload='{"id": "A-1", "fails": true}')
    ended = replayed(tmp_path / "code", content, typed="c\n")
    assert ended.returncode == 1
    assert "a bug" in ended.stdout + ended.stderr


def test_requests_get_recorded_answers_and_are_never_sent(tmp_path: Path) -> None:
    answer = {"method": "GET", "url": "https://shop.example/orders?***", "status": 200, "body": '["A-1"]'}
    asks = '{"id": "A-1", "asks": true}'
    ended = replayed(tmp_path / "code", recording(payload=asks, answers=[answer]), typed="c\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert logged(ended.stdout + ended.stderr, "Answered") == [{"orders": ["A-1"]}]
    failed = replayed(tmp_path / "other", recording(payload=asks))
    assert failed.returncode == 1
    assert "GET /orders has no answer in the recording" in failed.stdout + failed.stderr


async def test_answers_go_by_method_path_and_order() -> None:
    def answer(method: str, path: str, body: str | None, status: int = 200) -> RecordedAnswer:
        return RecordedAnswer(method=method, url=f"https://shop.example{path}?***", status=status, body=body)

    answers = [
        answer("GET", "/a", '"first"'),
        answer("POST", "/a", '"posted"'),
        answer("GET", "/a", '"second"'),
        answer("GET", "/b", None),
        answer("GET", "/c", None, 503),
        answer("GET", "not a url", "1"),
    ]

    async def asked(client: RecordedClient, method: str, path: str) -> tuple[int, bytes]:
        response = await client.request(method, URL(f"https://shop.invalid{path}?page=1"), json={})
        assert str(response.url) == f"https://shop.invalid{path}?page=1"
        return response.status, await response.read()

    async with recorded_client(answers) as client:
        assert await asked(client, "get", "/a") == (200, b'"first"')
        assert await asked(client, "GET", "/a") == (200, b'"second"')
        assert await asked(client, "POST", "/a") == (200, b'"posted"')
        assert await asked(client, "GET", "/c") == (503, b""), "it is sent again, and nobody reads it"
        for method, path, said in (
            ("GET", "/a", "has no answer"),
            ("PUT", "/a", "has no answer"),
            ("GET", "/b", "answers[3].body"),
        ):
            with pytest.raises(NotRecordedError) as refused:
                await asked(client, method, path)
            assert said in str(refused.value)


def test_code_that_asks_for_other_steps_is_stopped(tmp_path: Path) -> None:
    content = recording(steps=[step("check", 1, None)])
    ended = replayed(tmp_path / "code", content)
    assert ended.returncode == 1
    assert "'check'" in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no object"),
        ("{}", "format"),
        (recording(format=2), "format"),
        (recording(kind="webhook"), "kind"),
        (recording(payload=None), "payload"),
        (recording(task=7), "task"),
        (recording(id=""), "id"),
        (recording(attempt=0), "attempt"),
        (recording(queuedAt="today"), "queuedAt"),
        (recording(version="v1"), "version"),
        (recording(steps={}), "steps"),
        (recording(steps=[1]), "steps[0]"),
        (recording(steps=[step("a", 1, 1)] * 1001), "steps"),
        (recording(steps=[step("a", -1, 1)]), "steps[0].place"),
        (recording(steps=[{**step("a", 1, 1), "result": "{"}]), "steps[0].result"),
        (recording(steps=[{**step("a", 1, 1), "result": "[" * 100_000}]), "steps[0].result"),
        (recording(steps=[{**step("a", 1, 1), "missing": "x"}]), "steps[0].missing"),
        (recording(steps=[{**step("a", 1, 1), "outcome": {"event": "{"}}]), "steps[0].outcome.event"),
        (recording(answers=[{"method": "GET", "url": "/", "status": True}]), "answers[0].status"),
        (recording(answers=[{"method": "GET", "url": "/", "status": 99}]), "answers[0].status"),
        (recording(answers=[{"method": "GET", "url": "x" * 9000, "status": 200}]), "answers[0].url"),
        (recording(answers=[{"method": "GET", "url": "/", "status": 200, "body": {}}]), "answers[0].body"),
        (
            recording(answers=[{"method": "GET", "url": "/", "status": 200, "contentType": "a\r\nX: 1"}]),
            "contentType",
        ),
    ],
)
def test_a_file_that_nobody_wrote_is_refused(content: Any, said: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(InvalidRecordingError) as refused:
        Recording.parse(text.encode())
    assert said in str(refused.value)


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(InvalidRecordingError, match="bytes"):
        Recording.parse(b" " * (16 * 1024 * 1024 + 1))


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    ended = replayed(tmp_path / "code", "{}")
    assert ended.returncode == 1
    assert "is no recording of a run: format" in ended.stdout + ended.stderr
