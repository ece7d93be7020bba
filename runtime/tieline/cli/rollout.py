"""Following a rollout until it ends, and telling its outcome."""

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


def is_complete(environment: Json) -> bool:
    """Whether the environment serves its deployed version alone."""
    return bool((environment.get("rollout") or {}).get("state") == "complete")


def deploy_version(
    remote: Client, project: Json, environment: Json, version: Json, *, wait: int, output: Output
) -> None:
    """Deploys an existing version, and follows its rollout."""
    answer = remote.request(
        "PUT",
        f"projects/{project['id']}/versions/{version['id']}/deploy",
        query={"env_id": environment["id"]},
    )
    follow(remote, answer, environment["id"], wait=wait, output=output)


def follow(remote: Client, project: Json, environment_id: str, *, wait: int, output: Output) -> None:
    """Shows the rollout until it ends. Raises CommandError if it fails, or takes longer than ``wait`` seconds."""
    environment = environment_of(project, environment_id)
    version = environment["deployedVersion"]
    until = time.monotonic() + wait
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
            environment = environment_of(project, environment_id)
            update(_state(environment))
            if (environment.get("deployedVersion") or {}).get("id") != version["id"]:
                raise CommandError(f"Another deploy replaced {version['name']} before its rollout ended")
    show_result(output, project, environment)
    rollout = environment.get("rollout") or {}
    if rollout.get("state") == "failed":
        _show_errors(remote, project, environment)
        reason = environment.get("message") or rollout.get("reason") or "unknown"
        raise CommandError(f"The rollout of {version['name']} failed: {reason}")
    if wait and rollout.get("state") != "complete":
        raise CommandError(
            f"The rollout of {version['name']} has not ended within {wait} s: "
            f"{environment.get('message') or 'it is under way'}"
        )


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
    return f"{text} - {message}" if message and rollout != "complete" else text


def show_result(output: Output, project: Json, environment: Json) -> None:
    """Writes what an environment serves."""
    version = environment.get("deployedVersion") or {}
    value = {
        "project": {"id": project["id"], "name": project["name"]},
        "environment": {
            name: environment.get(name) for name in ("id", "name", "status", "publicUrl", "message")
        },
        "version": version,
        "rollout": environment.get("rollout"),
    }
    details(
        output,
        value,
        {
            "project": project["name"],
            "environment": environment["name"],
            "version": version.get("name"),
            "rollout": styled((environment.get("rollout") or {}).get("state", "")),
            "webhooks": environment.get("publicUrl"),
        },
    )


def _show_errors(remote: Client, project: Json, environment: Json) -> None:
    page = remote.get(
        f"projects/{project['id']}/logs",
        project_env=environment["name"],
        severity="ERROR",
        latest=True,
        first=_LOG_LINES,
    )
    for entry in reversed(page["logs"]):
        note(readable(json_text(entry), colour=False))
