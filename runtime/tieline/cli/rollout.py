"""Following a rollout until it ends, and reporting its outcome."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.log_format import readable
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import environment_of
from tieline.cli.terminal import Output, details, json_text, note, progress, styled

_POLL_SECONDS = 1.0
_LOG_LINES = 10
_MAX_MESSAGE = 256


def is_complete(environment: Json) -> bool:
    """Whether the environment serves its deployed version alone."""
    serving = (environment.get("servingVersion") or {}).get("id")
    is_serving = serving == (environment.get("deployedVersion") or {}).get("id")
    return is_serving and (environment.get("rollout") or {}).get("state") == "complete"


def deploy_version(
    remote: Client,
    project: Json,
    environment: Json,
    version: Json,
    *,
    message: str | None = None,
    wait: int,
    output: Output,
) -> None:
    """Deploys an existing version, and follows its rollout."""
    answer = remote.request(
        "PUT",
        f"projects/{project['id']}/versions/{version['id']}/deploy",
        query={"env_id": environment["id"]},
        body={"message": first_line(message)} if message else None,
    )
    follow(remote, answer, environment["id"], wait=wait, output=output)


def first_line(message: str) -> str:
    """What the list of releases keeps of a message.

    >>> first_line(" new prices \\n\\nand more")
    'new prices'
    """
    return message.strip().partition("\n")[0].rstrip()[:_MAX_MESSAGE]


def follow(remote: Client, project: Json, environment_id: str, *, wait: int, output: Output) -> None:
    """Shows the rollout until it ends. Raises CommandError if it fails, or takes longer than ``wait`` seconds."""
    environment = environment_of(project, environment_id)
    version = environment["deployedVersion"]
    until, is_replaced = time.monotonic() + wait, False
    with progress(_state(environment)) as update, _interruptible(version):
        while wait and time.monotonic() < until and _progressing(environment):
            time.sleep(min(_POLL_SECONDS, wait))
            try:
                project = remote.get(f"projects/{project['id']}")
            except CommandError as error:
                if error.code is not ExitCode.UNAVAILABLE:
                    raise
                # The rollout goes on without the API.
                update(f"{environment['name']}: {error}; trying again")
                continue
            found = environment_of(project, environment_id)
            replaced = _replaced(found, version)
            if replaced and is_replaced:
                raise CommandError(replaced)
            is_replaced = bool(replaced)
            if not replaced:
                environment = found
                update(_state(environment))
    show_result(output, project, environment)
    rollout = environment.get("rollout") or {}
    if rollout.get("state") == "failed":
        reason = environment.get("message") or rollout.get("reason") or "unknown"
        if _show_errors(remote, project, environment):
            reason = _headline(reason)
        raise CommandError(f"The rollout of {version['name']} failed: {reason}")
    if wait and rollout.get("state") != "complete":
        raise CommandError(
            f"The rollout of {version['name']} has not ended within {wait} s: "
            f"{environment.get('message') or 'it is under way'}"
        )


def _replaced(environment: Json, version: Json) -> str:
    """Why the rollout of a version cannot end any more. One answer alone may be of a replica that is behind."""
    if (environment.get("deployedVersion") or {}).get("id") != version["id"]:
        return f"Another deploy replaced {version['name']} before its rollout ended"
    if not environment.get("rollout"):
        return f"{environment['name']} was suspended before the rollout of {version['name']} ended"
    return ""


def stop(remote: Client, project: Json, environment: Json, *, wait: int) -> None:
    """Suspends an environment. Raises CommandError if something of it still runs after ``wait`` seconds."""
    at, name = f"projects/{project['id']}", environment["name"]
    remote.request("POST", f"{at}/suspend", query={"environment": environment["id"]})
    until, state = time.monotonic() + wait, ""
    with progress(f"{name}: stopping") as update:
        while wait and (state := _stopping(remote, at, environment["id"])) not in ("suspended", "draft"):
            if time.monotonic() >= until:
                raise CommandError(
                    f"{name} has not stopped within {wait} s and is {state}; `tieline env list` shows its state"
                )
            update(f"{name}: {state}, stopping")
            time.sleep(_POLL_SECONDS)


def _stopping(remote: Client, project: str, environment: str) -> str:
    found = environment_of(remote.get(project), environment)
    if found.get("rollout"):
        raise CommandError(f"{found['name']} was deployed to before it had stopped")
    return str(found["status"])


@contextmanager
def _interruptible(version: Json) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        note(
            f"The rollout of {version['name']} goes on without this command; `tieline env list` shows its state"
        )
        raise


def _progressing(environment: Json) -> bool:
    return bool((environment.get("rollout") or {}).get("state", "progressing") == "progressing")


def _state(environment: Json) -> str:
    rollout = (environment.get("rollout") or {}).get("state", "progressing")
    text = f"{environment['name']}: {environment['deployedVersion']['name']} {rollout}"
    message = environment.get("message")
    return f"{text} - {_headline(message)}" if message and rollout != "complete" else text


def _headline(message: str) -> str:
    """A message without the last lines of the log, which are shown by themselves."""
    return message.partition("; its last lines: ")[0]


def show_result(output: Output, project: Json, environment: Json) -> None:
    """Writes what is deployed to an environment, and what serves there."""
    version = environment.get("deployedVersion") or {}
    value = {
        "project": {"id": project["id"], "name": project["name"]},
        "environment": {
            name: environment.get(name) for name in ("id", "name", "status", "publicUrl", "message")
        },
        "version": version,
        "servingVersion": environment.get("servingVersion"),
        "rollout": environment.get("rollout"),
    }
    details(
        output,
        value,
        {
            "project": project["name"],
            "environment": environment["name"],
            "version": version.get("name"),
            "serves": (environment.get("servingVersion") or {}).get("name"),
            "rollout": styled((environment.get("rollout") or {}).get("state", "")),
            "webhooks": environment.get("publicUrl"),
        },
    )


def _show_errors(remote: Client, project: Json, environment: Json) -> bool:
    """Shows the last errors of the log since the deploy; False where there are none."""
    page = remote.get(
        f"projects/{project['id']}/logs",
        project_env=environment["name"],
        severity="ERROR",
        start=environment.get("lastDeployedAt"),
        latest=True,
        first=_LOG_LINES,
    )
    for entry in reversed(page["logs"]):
        note(readable(json_text(entry), colour=False))
    return bool(page["logs"])
