"""Where the engine keeps what integrations remember between runs: streams, subjects, and keys as parts of subjects.

Each organisation has three streams in the platform's account, each with one message a subject:

- ``state_<organisation>``: subject ``state.<organisation>.<environment>.<activation>.<key>``, where ``~own`` stands for
  the environment's own activation;
- ``schedules_<organisation>``: subject ``schedules.<organisation>.<environment>.<key>``, how far a schedule is, and
  ``schedules.<organisation>.<environment>.~code.<key>``, which schedules the code has;
- ``issues_<organisation>``: subject ``issues.<organisation>.<environment>.<issue>``, the decision about an
  issue, ``issues.<organisation>.<environment>.~reports.all``, which issues were reported, and
  ``issues.<organisation>.<environment>.~approvals.all``, which approvals were.

A message is a value as JSON. Pods have no way to these streams: the API reads and writes them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote_to_bytes

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from tieline_core.engine.streams import (
    NO_DUPLICATES,
    StreamLimits,
    StreamOwner,
    ensure_numbered,
)

MAX_KEY_BYTES = 512
"""Of a key, in UTF-8."""
MAX_EXPIRY_SECONDS = 10 * 366 * 24 * 3600
"""The longest time after which a value may expire."""
OWN = "~own"
"""Takes the place of an activation: the environment's own."""
_STATE, _SCHEDULES, ISSUES = "state", "schedules", "issues"
_CODE = "~code"
_REPORTS, _APPROVALS = "~reports", "~approvals"
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|=[0-9A-F]{2})+")


def state_stream(organisation: str) -> str:
    """The name of the stream with the state of an organisation's integrations."""
    return f"{_STATE}_{organisation}"


def schedules_stream(organisation: str) -> str:
    """The name of the stream that says how far an organisation's schedules are."""
    return f"{_SCHEDULES}_{organisation}"


def issues_stream(organisation: str) -> str:
    """The name of the stream with decisions about an organisation's issues."""
    return f"{ISSUES}_{organisation}"


def state_stream_names(organisation: str) -> tuple[str, str, str]:
    """All of them."""
    return state_stream(organisation), schedules_stream(organisation), issues_stream(organisation)


@dataclass(frozen=True)
class StatePlace:
    """Where values with keys of their own are kept: a stream, and what their subjects begin with."""

    stream: str
    prefix: str

    @classmethod
    def of_activation(cls, organisation: str, environment: str, activation: str | None) -> Self:
        """The state of an activation, by ids; None for the environment's own."""
        return cls(state_stream(organisation), f"{_STATE}.{organisation}.{environment}.{activation or OWN}")

    @classmethod
    def of_schedules(cls, organisation: str, environment: str) -> Self:
        """How far the schedules of an environment are."""
        return cls(schedules_stream(organisation), f"{_SCHEDULES}.{organisation}.{environment}")

    @classmethod
    def of_registered_schedules(cls, organisation: str, environment: str) -> Self:
        """Which schedules the code of an environment has."""
        return cls(schedules_stream(organisation), f"{_SCHEDULES}.{organisation}.{environment}.{_CODE}")

    @classmethod
    def of_issues(cls, organisation: str, environment: str) -> Self:
        """Decisions about the issues of an environment."""
        return cls(issues_stream(organisation), f"{ISSUES}.{organisation}.{environment}")

    @classmethod
    def of_issue_reports(cls, organisation: str, environment: str) -> Self:
        """Which issues of an environment were reported."""
        return cls(issues_stream(organisation), f"{ISSUES}.{organisation}.{environment}.{_REPORTS}")

    @classmethod
    def of_approval_reports(cls, organisation: str, environment: str) -> Self:
        """Which approvals of an environment were reported."""
        return cls(issues_stream(organisation), f"{ISSUES}.{organisation}.{environment}.{_APPROVALS}")

    @property
    def subjects(self) -> str:
        """The subjects of all its values."""
        return f"{self.prefix}.*"

    def subject(self, key: str) -> str:
        """The subject of a key."""
        return f"{self.prefix}.{key_token(key)}"

    def key(self, subject: str) -> str | None:
        """The key of a subject; None where it is that of no value."""
        return key_of_token(subject.removeprefix(f"{self.prefix}."))


def key_token(key: str) -> str:
    """A key, which may be any text that UTF-8 can express, as one token of a subject."""
    return "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) else f"={byte:02X}" for byte in key.encode("utf-8")
    )


def key_of_token(token: str) -> str | None:
    """The key that ``key_token`` made a token of; None for what it never makes."""
    if not _TOKEN.fullmatch(token):
        return None
    try:
        key = unquote_to_bytes(token.replace("=", "%")).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return key if key_token(key) == token else None


def activation_of_subject(subject: str) -> tuple[str, str] | None:
    """The ids of the environment and of the activation (OWN for its own) that a value of state belongs to."""
    match subject.split("."):
        case [kind, _, environment, activation, _] if kind == _STATE:
            return environment, activation
    return None


def environment_of_subject(subject: str) -> str | None:
    """The id of the environment that a value of one of the streams belongs to."""
    parts = subject.split(".")
    return parts[2] if len(parts) > 3 and parts[0] in (_STATE, _SCHEDULES, ISSUES) else None


def is_report(subject: str) -> bool:
    """Whether a message of the stream of issues says what was reported, rather than what was decided."""
    match subject.split("."):
        case [kind, _, _, reports, _]:
            return kind == ISSUES and reports in (_REPORTS, _APPROVALS)
    return False


def schedule_records(organisation: str) -> str:
    """The subjects of how far all schedules of an organisation are."""
    return f"{_SCHEDULES}.{organisation}.*.*"


def schedule_of_subject(subject: str) -> tuple[str, str] | None:
    """The id of the environment and the schedule's name that such a subject is about; None for any other."""
    match subject.split("."):
        case [kind, _, environment, token] if kind == _SCHEDULES:
            name = key_of_token(token)
            return (environment, name) if name is not None else None
    return None


def registered_schedules(organisation: str) -> str:
    """The subjects of which schedules the code of an organisation's environments has."""
    return f"{_SCHEDULES}.{organisation}.*.{_CODE}.*"


def state_streams(organisation: str, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The streams of an organisation's state, schedules and issues.

    A full one refuses what is new. Decisions about issues cannot be deleted: of these, the oldest make room.
    """
    return tuple(
        StreamConfig(
            name=name,
            subjects=[f"{kind}.{organisation}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=discard,
            max_msgs_per_subject=1,
            max_bytes=max_bytes,
            duplicate_window=NO_DUPLICATES.total_seconds(),
            allow_msg_ttl=True,
            allow_atomic=True,
        )
        for name, kind, max_bytes, discard in (
            (state_stream(organisation), _STATE, limits.state_bytes, DiscardPolicy.NEW),
            (schedules_stream(organisation), _SCHEDULES, limits.schedules_bytes, DiscardPolicy.NEW),
            (issues_stream(organisation), ISSUES, limits.issues_bytes, DiscardPolicy.OLD),
        )
    )


async def ensure_state(
    jetstream: JetStreamContext,
    organisation: str,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes the streams of an organisation's state, schedules and issues, or updates them.

    Raises as ``streams.ensure_environment`` does.
    """
    # Numbers of messages are versions of values.
    configs = state_streams(organisation, limits)
    await ensure_numbered(jetstream, configs, limits, owner, settings=settings)
