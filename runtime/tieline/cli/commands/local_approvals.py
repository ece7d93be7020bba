"""Approvals and signals of ``tieline run``: what commands for the platform need not load."""

import asyncio
import getpass
import time
from pathlib import Path
from typing import Any

from tieline.cli.exit_codes import CommandError
from tieline.cli.options import HERE
from tieline.cli.remote.client import Json
from tieline.configuration.project_folder import find
from tieline.events.asked_approval import AskedApproval
from tieline.events.event_file import EventFile
from tieline.events.local_answers import (
    ApprovalRefusedError,
    Given,
    Person,
    kept_in,
    leave_answer,
    leave_signal,
)
from tieline.events.queue import EventsUnavailableError

_EVENTS = ".tieline/events.db"


def answer_locally(approval: str, body: Json) -> None:
    """Answers an approval of ``tieline run`` in this folder. Raises CommandError."""
    given = Given(approved=body["approved"], comment=body["comment"], values=body.get("values"))
    asked = local_approval(approval)
    # On your own machine the author is everybody whom the approval names.
    names = [one.partition(":")[::2] for one in asked["by"]]
    users = [name for kind, name in names if kind == "user"]
    person = Person(
        name=users[0] if users else getpass.getuser(),
        groups=tuple(name for kind, name in names if kind == "group"),
    )
    try:
        asyncio.run(leave_answer(_file(), asked["id"], person, given))
    except (ApprovalRefusedError, EventsUnavailableError) as error:
        raise CommandError(str(error)) from None


def signal_locally(run: str, name: str, payload: Any) -> None:
    """Sends a signal to a run of ``tieline run`` in this folder. Raises CommandError."""
    try:
        leave_signal(_file(), run.upper(), name, payload, by=getpass.getuser())
    except (EventsUnavailableError, ValueError) as error:
        raise CommandError(str(error)) from None


def local_approval(approval: str) -> Json:
    """An approval of ``tieline run`` in this folder, as REST shows it. Raises CommandError."""
    for found in local_approvals():
        if found["id"].lower() == approval.lower():
            return found
    raise CommandError(f"There is no approval {approval} here; see `tieline approvals list --local`")


def local_approvals() -> list[Json]:
    """All approvals of ``tieline run`` in this folder, oldest first. Raises CommandError."""
    try:
        kept = kept_in(_file()).approvals()
    except EventsUnavailableError as error:
        raise CommandError(str(error)) from None
    return [_as_item(AskedApproval.of(one, outcome, time.time()), task=one.task) for one, outcome in kept]


def _as_item(asked: AskedApproval, *, task: str) -> Json:
    found: dict[str, Any] = {
        "id": asked.id,
        "runId": asked.run_id,
        "task": task,
        "title": asked.title,
        "details": asked.details,
        "by": list(asked.by),
        "form": asked.form,
        "otherThan": asked.other_than,
        "state": asked.state,
    }
    return found


def _file() -> EventFile:
    path = Path(find(HERE).code.resolve(), _EVENTS)
    if not path.exists():
        raise CommandError("`tieline run` has no events in this folder yet: go to the folder that it serves")
    return EventFile(path)
