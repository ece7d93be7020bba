"""Schedules on your own machine: run now, by the same rules, with a state that stays."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from tests.unit.cli.commands import Running, project, tieline
from tieline.cli.check import check
from tieline.configuration.project_folder import find
from tieline.state.documents import (
    ANY_VERSION,
    SCHEDULES,
    DocumentChangedError,
    DocumentScope,
    StateUnavailableError,
)
from tieline.state.file_documents import FileDocuments

MAIN = """\
from tieline import Context, Integration, ScheduledRun

integration = Integration()


@integration.schedule("sync", "0 3 * * *", timezone="Europe/Berlin")
async def sync(ctx: Context, run: ScheduledRun) -> None:
    seen = await ctx.state.get("seen", 0) + 1
    await ctx.state.set("seen", seen)
    ctx.log.info("Synced", seen=seen)


@integration.schedule("remind", "0 9 * * *", activations="users")
async def remind(ctx: Context) -> None:
    ctx.log.info("Reminding", user=ctx.activation.user.external_id)
    if ctx.variables.get("broken"):
        raise ValueError("broken")
"""
CONNECTIONS = "users: {ann: {}, ben: {variables: {broken: true}}}\n"


def fields(output: str, message: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in output.splitlines()]
    return [line["fields"] for line in lines if line["message"] == message]


def test_a_schedule_is_run_now_and_remembers_its_state(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": MAIN})
    for seen in (1, 2):
        ended = tieline("run", str(tmp_path), "--once", "sync")
        assert (ended.returncode, fields(ended.stdout, "Synced")) == (0, [{"seen": seen}]), ended.stdout
    assert [path for path, _ in find(tmp_path).files()] == ["main.py"]


def test_a_users_schedule_is_run_for_all_or_for_one_and_its_failure_is_the_commands(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": MAIN, "connections.yaml": CONNECTIONS})
    everyone = tieline("run", str(tmp_path), "--once", "remind")
    assert everyone.returncode == 1
    lines = [json.loads(line) for line in everyone.stdout.splitlines()]
    assert lines[-1]["message"] == "Schedule remind failed for ben (1 of 2 runs)"
    (failed,) = [line for line in lines if line["message"].startswith("Schedule remind failed: ")]
    assert failed["fields"] == {"user": "ben"}
    assert {str(found["user"]) for found in fields(everyone.stdout, "Reminding")} == {"ann", "ben"}
    ann = tieline("run", str(tmp_path), "--once", "remind", "--user", "ann")
    assert (ann.returncode, fields(ann.stdout, "Reminding")) == (0, [{"user": "ann"}])
    nobody = tieline("run", str(tmp_path), "--once", "remind", "--user", "zoe")
    assert (nobody.returncode, "no user 'zoe'" in nobody.stdout) == (1, True)
    nothing = tieline("run", str(tmp_path), "--once", "remnid")
    assert (nothing.returncode, "there are: remind, sync" in nothing.stdout) == (1, True)


EVENTS = """\
from tieline import Context, Event, Integration, Reject

integration = Integration()


@integration.schedule("nightly", "0 3 * * *")
async def nightly(ctx: Context) -> None:
    for number in (1, 2):
        await ctx.publish("order", {"number": number})


@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
    if event.payload["number"] < 0:
        raise ValueError("below zero")
    ctx.log.info("Booked", number=event.payload["number"])
"""


def test_the_events_of_a_schedule_are_run_with_it(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": EVENTS})
    ended = tieline("run", str(tmp_path), "--once", "nightly")
    assert (ended.returncode, fields(ended.stdout, "Booked")) == (0, [{"number": 1}, {"number": 2}])


def test_an_event_is_run_now_with_its_payload_and_its_failure_is_the_commands(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": EVENTS})
    ended = tieline("run", str(tmp_path), "--once", "order", "--payload", '{"number": 7}')
    assert (ended.returncode, fields(ended.stdout, "Booked")) == (0, [{"number": 7}])
    failed = tieline("run", str(tmp_path), "--once", "order", "--payload", '{"number": -1}')
    lines = [json.loads(line)["message"] for line in failed.stdout.splitlines()]
    assert failed.returncode == 1
    assert lines[-2:] == [
        "Events that wait for their time, and are not run: 1",
        "Events that failed: 1",
    ]
    mistaken = tieline("run", str(tmp_path), "--once", "order", "--payload", "{")
    assert (mistaken.returncode, "'{' is not JSON" in mistaken.stderr) == (2, True)


async def test_schedules_are_told_with_their_next_time_and_followed(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": MAIN.replace('"0 3 * * *"', '"* * * * * *"')})
    async with Running(tmp_path) as running:
        await running.said("remind, next at 2")
        await running.said('"Synced"')


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ('"99 * * * *"', "Schedule 'sync': '99 * * * *' is no cron expression"),
        ('"0 3 * * *", timezone="Europe/Berlim"', "Berlim"),
        ('"0 3 * * *", parallel=0', "parallel must be from 1"),
    ],
)
def test_a_schedule_that_cannot_be_is_told_with_its_line(tmp_path: Path, schedule: str, told: str) -> None:
    code = f'{MAIN.partition("@")[0]}@integration.schedule("sync", {schedule})\ndef sync() -> None: ...\n'
    report = check(find(project(tmp_path, {"main.py": code})))
    (finding,) = report.findings
    assert (Path(finding.filename or "").name, finding.line) == ("main.py", 6)
    assert told in finding.message


async def test_documents_in_a_file_are_changed_by_compare_and_swap(tmp_path: Path) -> None:
    one, other = (FileDocuments(tmp_path / "state" / "x.json") for _ in range(2))
    shelf, users = DocumentScope(kind="state"), DocumentScope(kind="state", external_id="a/b")
    assert await one.get(shelf, "cursor") is None
    version = await one.put(shelf, "cursor", {"page": 1}, expected=None)
    found = await other.get(shelf, "cursor")
    assert found is not None
    assert (found.value, found.version) == ({"page": 1}, version)
    for wrong in (None, "another"):
        with pytest.raises(DocumentChangedError):
            await other.put(shelf, "cursor", 2, expected=wrong)
        with pytest.raises(DocumentChangedError):
            await other.delete(shelf, "cursor", expected=wrong)
    assert await one.get(users, "cursor") is None
    await other.put(users, "cursor", 3, expected=ANY_VERSION)
    await other.delete(shelf, "cursor", expected=version)
    assert await one.get(shelf, "cursor") is None
    assert (await one.get(users, "cursor")).value == 3  # type: ignore[union-attr]


async def test_keys_in_a_file_are_those_of_one_place_and_expired_values_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = FileDocuments(tmp_path / "x.json")
    own, ann = DocumentScope(kind="state"), DocumentScope(kind="state", external_id="ann")
    keys = ['"quoted"', "orders/1", 'users/"ann"/orders/1', "users/x"]
    for number, key in enumerate(keys):
        await documents.put(own, key, number, expected=None)
    await documents.put(ann, "orders/1", "hers", expected=None)
    await documents.put(SCHEDULES, "orders", 1, expected=None)
    assert await documents.keys(own, "") == sorted(keys)
    assert await documents.keys(own, "orders/") == ["orders/1"]
    assert await documents.keys(ann, "") == ["orders/1"]
    assert (await documents.get(own, 'users/"ann"/orders/1')).value == 2  # type: ignore[union-attr]
    await documents.put(own, "soon", 1, expected=None, expires=60)
    found = await documents.get(own, "soon")
    assert found is not None
    assert found.expires_at is not None
    later = time.time() + 61
    monkeypatch.setattr("tieline.state.file_documents.time.time", lambda: later)
    assert await documents.get(own, "soon") is None
    assert await documents.keys(own, "") == sorted(keys)
    await documents.put(own, "soon", 2, expected=None)


async def test_two_processes_lose_no_change_of_a_shared_file(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tieline.state.documents import DocumentChangedError, DocumentScope\n"
        "from tieline.state.file_documents import FileDocuments\n"
        "async def main():\n"
        "    documents, shelf = FileDocuments(Path(sys.argv[1])), DocumentScope(kind='state')\n"
        "    done = 0\n"
        "    while done < 50:\n"
        "        found = await documents.get(shelf, 'n')\n"
        "        version, value = (found.version, found.value) if found else (None, 0)\n"
        "        try:\n"
        "            await documents.put(shelf, 'n', value + 1, expected=version)\n"
        "            done += 1\n"
        "        except DocumentChangedError:\n"
        "            pass\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "state.json"
    adding = [
        await asyncio.create_subprocess_exec(sys.executable, str(tmp_path / "add.py"), str(path))
        for _ in range(2)
    ]
    assert [await process.wait() for process in adding] == [0, 0]
    found = await FileDocuments(path).get(DocumentScope(kind="state"), "n")
    assert found is not None
    assert found.value == 100


async def test_a_broken_file_of_documents_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(StateUnavailableError, match="remove it"):
        await FileDocuments(tmp_path / "state.json").get(DocumentScope(kind="state"), "n")
