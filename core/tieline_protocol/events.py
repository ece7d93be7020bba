"""Events as the engine's messages: the payload is the message's content, all else a header.

``EventMetadata`` travels with an event through its attempts, so it says what an attempt has to know: which run it is,
for whom, and how often it was tried.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from tieline_protocol.event_streams import hashed

HEADER = "Tieline-Event"
"""Has the metadata, as JSON in ASCII."""
MESSAGE_ID = "Nats-Msg-Id"
"""JetStream stores a message with the same id once in its duplicate window."""
ROLLUP = "Nats-Rollup"
NO_ROLLUP = "never"
"""A value that JetStream refuses, after it has looked for the message's id: so nothing is stored."""
SCHEDULE = "Nats-Schedule"
SCHEDULE_TARGET = "Nats-Schedule-Target"


RunKind = Literal["webhook", "event", "schedule", "background", "call"]


class InvalidEventError(ValueError):
    """The message is no event."""


@dataclass(frozen=True, kw_only=True)
class WebhookRequest:
    """What is kept of a webhook's request, beside the body, which is the payload."""

    method: str
    path: str
    """With the query, as it was sent."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Without credentials: those were checked before the event was accepted."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """From JSON, where a pair is a list. Raises TypeError, KeyError or ValueError for something else."""
        method, path = content["method"], content["path"]
        headers = [(name, value) for name, value in content.get("headers", ())]
        texts = (method, path, *(text for pair in headers for text in pair))
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a request is made of texts")
        return cls(method=method, path=path, headers=headers)


@dataclass(frozen=True, kw_only=True)
class ParentRun:
    """The run that waits for an event's run, as that one has to know it."""

    run: str
    key_hash: str | None = None
    """Of the parent's key, where it is delivered in the order of one."""
    depth: int = 1
    """How many runs stand above the child."""
    keys: tuple[str, ...] = ()
    """Hashes of the keys of all runs above the child: behind one of them it would never begin."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """From JSON. Raises TypeError, KeyError or AttributeError for something else."""
        run, key_hash, depth = content["run"], content.get("key_hash"), content["depth"]
        keys = tuple(content.get("keys", ()))
        texts = (run, *keys, *([] if key_hash is None else [key_hash]))
        if type(depth) is not int or not all(
            isinstance(text, str) and _TOKEN.fullmatch(text) for text in texts
        ):
            raise TypeError("no parent")
        return cls(run=run, key_hash=key_hash, depth=depth, keys=keys)


@dataclass(frozen=True, kw_only=True)
class EventMetadata:
    """An event without its payload. Times are seconds since 1970."""

    run: str
    """The run's id (ULID); the same for all attempts."""
    kind: RunKind
    task: str
    queued_at: float
    attempt: int = 1
    """The number of the attempt that this message asks for."""
    user: str | None = None
    """External id."""
    key: str | None = None
    shared_key: bool = False
    """Whether the key is one with all tasks and users of the environment that share it."""
    event_id: str | None = None
    """What the sender deduplicates by."""
    traceparent: str | None = None
    """Of whoever published it (W3C Trace Context)."""
    priority: int = 0
    """The lane of the queue that it is stored in (``event_streams.LANES``). What the code says decides when it runs."""
    replay_of: str | None = None
    """The run that is run again."""
    idempotency_run: str | None = None
    """The run whose idempotency keys a replay with the same input has; None for its own."""
    published: tuple[str, ...] = ()
    """Hashes of what earlier attempts have published."""
    request: WebhookRequest | None = None
    parent: ParentRun | None = None
    """The run that waits for this one."""
    has_steps: bool = False
    """Whether results of steps may be kept for it."""
    debounced: str | None = None
    """The wait of an event that newer ones supersede: its index and its name, with a space between them."""
    throttled: str | None = None
    """The place of an event in the line of its task, or that it has had its turn."""
    batch: bool = False
    """Whether the payload is a batch of events, which the platform has put together."""
    members: tuple[str, ...] = ()
    """The runs that wait for the end of a batch, each with the hash of the key in whose order it is, if any. A replay
    has none."""
    interruptions: int = 0
    """How often the run's pod ended in its middle, since an attempt last ended by itself."""
    failure: str | None = None
    """Why it is to be a dead letter. It waits for room among them, and is not run again."""
    failure_type: str | None = None
    """The name of the error's class, of a dead letter too."""
    refusals: int = 0
    """How often there was no room for its dead letter."""

    @property
    def waiting_runs(self) -> list[ParentRun]:
        """The runs that wait for the end of this one: its parent, or the events of a batch."""
        members = [one.partition(" ") for one in self.members]
        found = [ParentRun(run=run, key_hash=key_hash or None) for run, _, key_hash in members]
        return found if self.parent is None else [self.parent, *found]

    @property
    def message_id(self) -> str:
        """What the engine deduplicates by: the run, or events of a task and a user with the same id."""
        if self.event_id is None:
            return self.run
        # Ids may have any letter, and headers may not.
        return hashed("\0".join((self.task, self.user or "", self.event_id)))

    @property
    def key_hash(self) -> str:
        """The key in subjects: of this kind, task and user alone, unless it is shared."""
        scope = () if self.shared_key else (self.kind, self.task, self.user or "")
        # A shared key may have any letter, and must not pass for another task's and user's.
        return hashed("\0".join(("shared" if self.shared_key else "own", *scope, self.key or "")))

    def header(self) -> str:
        """The value of the header."""
        content = {name: value for name in _NAMES if (value := getattr(self, name)) not in _EMPTY}
        if self.request is not None:
            content["request"] = vars(self.request)
        if self.parent is not None:
            content["parent"] = vars(self.parent)
        return _encode(content)

    @classmethod
    def parse(cls, headers: Mapping[str, str] | None) -> Self:
        """From a message's headers. Raises InvalidEventError."""
        try:
            content: dict[str, Any] = json.loads((headers or {})[HEADER])
            request, parent = content.pop("request", None), content.pop("parent", None)
            known = {name: value for name, value in content.items() if name in _FIELDS}
            known["published"] = tuple(known.get("published", ()))
            known["members"] = tuple(known.get("members", ()))
            if not all(isinstance(one, str) and _MEMBER.fullmatch(one) for one in known["members"]):
                raise TypeError("no members")
            if any(not isinstance(known[name], str) for name in _TEXTS if known.get(name) is not None):
                raise TypeError("no text")
            if any(not isinstance(known.get(name, 0), int | float) for name in _NUMBERS):
                raise TypeError("no number")
            if type(known.get("priority", 0)) is not int:
                raise TypeError("no priority")
            return cls(
                **known,
                request=WebhookRequest.from_dict(request) if request else None,
                parent=ParentRun.from_dict(parent) if parent else None,
            )
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise InvalidEventError(f"A message is no event: {type(error).__name__}") from None


_TOKEN = re.compile(r"[0-9A-Za-z]{1,64}")
"""A run's id or a hash: a part of a subject."""
_MEMBER = re.compile(rf"{_TOKEN.pattern}( {_TOKEN.pattern})?")
# Made once: json.dumps makes a new encoder on each call that is given options.
_encode = json.JSONEncoder(separators=(",", ":")).encode
_TEXTS = (
    "run", "kind", "task", "user", "key", "event_id", "traceparent", "replay_of", "idempotency_run",
    "failure", "failure_type", "debounced", "throttled",
)  # fmt: skip
_NUMBERS = ("queued_at", "attempt", "interruptions", "refusals")
_EMPTY: tuple[object, ...] = (None, 0, ())
_NAMES = tuple(one.name for one in fields(EventMetadata))
_FIELDS = {one.name for one in fields(EventMetadata)} - {"request", "parent"}
