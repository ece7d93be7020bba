"""Accounts, streams, subjects and consumers of the event engine. Platform and pods agree on them.

Each environment has an account of its own, with streams of its own: the server publishes to the reply subject that a
request names, and checks no permission for it, so permissions alone do not keep pods apart. Below, ``<env>`` stands for
``<organisation>.<environment>`` in a subject, and for ``<organisation>_<environment>`` in a stream's name:

- ``ev_<env>`` holds what is to be run, a work queue with one message a subject: ``ev.<env>.<lane>.<task>.<run>`` is an
  event without a key, ``key.<env>.<hash of the key>.<run>`` one with a key, and
  ``ev.<env>.normal.~key.<hash of the key>`` a token: the key has events. The lane is ``high``, ``normal`` or ``low``;
  the consumers ``pods-high``, ``pods`` and ``pods-low`` deliver one each. Who gets a token runs the key's events,
  oldest first, and deletes each once it has run. A second token of a key is refused while there is one, so one pod at a
  time runs a key;
- ``later_<env>`` holds what waits for a time: subject ``later.<env>.<run>`` until then and ``due.<env>.<run>`` after
  it. Of a key it is ``~key-<hash of the key>`` that waits, in the place of a run;
- ``run_<env>`` holds what runs must not forget: subject ``run.<env>.<run>.step.<name>.<occurrence>`` for a result of a
  step, ``run.<env>.<run>.step.~claim`` for the attempt that alone may store such results, ``run.<env>.<run>.state`` for
  the attempts of an event, ``run.<env>.<run>.ended`` for an hour after a run that had any of these,
  ``run.<env>.<run>.cancelled`` for an hour after somebody cancelled one, ``run.<env>.<run>.interruption`` for a day
  after a pod ended itself since the run blocked it, and
  ``run.<env>.~delivery.<hash>`` for a sender's id of a request that was accepted. Of waits (``tieline_protocol.waits``)
  it has ``run.<env>.~rule.<hash of the name>.<rule>`` for each way in which code waits for an event,
  ``run.<env>.~wait.<index>.<run>.<wait>.<key>`` for a wait, ``run.<env>.~kept.<index>.<run of the event>`` for an event
  that runs can still wait for, ``run.<env>.~line.<index>`` for the runs that a throttled task starts, and
  ``run.<env>.<run>.step.~outcome.<wait>`` for how a wait has ended, which for a child
  run (``tieline_protocol.child_runs``) whoever ends the child writes. Of approvals
  (``tieline_protocol.approvals``) it has ``run.<env>.~approval.<approval>.<run>`` for what a run asks, and
  ``run.<env>.~answered.<approval>`` for the outcome, which stays when the run has ended;
- ``dead_<env>`` holds dead letters: subject ``dead.<env>.<run>``.

An environment has these once somebody who needs them is connected to its account (``EventStreams.is_needed_by``): a pod
whose code has events, or the API, which publishes one.

Each organisation has two streams with records of runs in the platform's account:

- ``history_<organisation>`` has those of events and queued webhooks. Pods write them at
  ``history.<organisation>.<environment>``, which their account imports and which is all that leaves it;
- ``direct_<organisation>`` has those of direct runs, which can be many and push out no others. The API writes at
  ``direct.<organisation>.<environment>`` what pods report to it, and at ``direct.<organisation>.<environment>.calls``
  the calls of agents.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tieline_protocol.nkeys import account_id

PODS = "pods"
"""The consumer of an environment's pods, for events of the usual priority and for what is due."""
LANES: Mapping[int, str] = MappingProxyType({1: "high", 0: "normal", -1: "low"})
"""The priorities, highest first, as a token of subjects in the queue. Each has a consumer of its own there."""
LEASE_SECONDS = 30.0
"""How long the engine waits for a sign of life of a pod that has an event, before another one gets it."""
KEY_TOKEN = "~key"  # noqa: S105  (a subject)
"""Takes the place of a task in the subject of a token."""
NO_KEY = "0"
"""Takes the place of a key's hash in the subject of a wait of a run without a key."""
MAX_BYTES = "tieline.dev/max-bytes"
"""The metadata of the stream ``later`` with the bytes beyond which publishers store no new event in it."""
EVENTS_PER_SECOND = "tieline.dev/events-per-second"
"""The metadata of the stream ``later`` with the organisation's quota of events; publishers ask the API for a share."""
MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Of a payload. The run history keeps it in base64 in one message."""
MAX_STORED_EVENT_BYTES = MAX_EVENT_BYTES + 128 * 1024
"""Of a message in an environment's streams: a payload and its headers, of which JetStream takes 64 KiB."""
MAX_HISTORY_BYTES = 7 * 1024 * 1024
"""Of a message in the run history."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
TTL = "Nats-TTL"
"""The header with how long JetStream keeps a message."""
EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
"""The header with the number of the subject's last message; 0 where there must be none."""
STEP_HEADER = "Tieline-Step"
"""The header of a step's message with its name, hash of work, version and run, as JSON in ASCII."""
API_CLIENT = "tieline-api"
"""The name of the API's clients."""


def history_stream(organisation: str) -> str:
    """The name of the stream with the run history of an organisation, by its id."""
    return f"history_{organisation}"


def direct_stream(organisation: str) -> str:
    """The name of the stream with the direct runs of an organisation, by its id."""
    return f"direct_{organisation}"


@dataclass(frozen=True)
class EventStreams:
    """The names for an environment, by the ids of its organisation and of itself (ULIDs)."""

    organisation: str
    environment: str

    @property
    def _own(self) -> str:
        return f"{self.organisation}.{self.environment}"

    @property
    def queue(self) -> str:
        """The stream of what is to be run."""
        return f"ev_{self.organisation}_{self.environment}"

    @property
    def later(self) -> str:
        """The stream of what waits for a time."""
        return f"later_{self.organisation}_{self.environment}"

    @property
    def runs(self) -> str:
        """The stream of steps and attempts."""
        return f"run_{self.organisation}_{self.environment}"

    @property
    def dead_letters(self) -> str:
        """The stream of dead letters."""
        return f"dead_{self.organisation}_{self.environment}"

    @property
    def names(self) -> tuple[str, str, str, str]:
        """All streams of the environment."""
        return self.queue, self.later, self.runs, self.dead_letters

    def is_needed_by(self, client: str) -> bool:
        """Whether a client of the environment's account needs its streams, by the client's name.

        Those of pods have the environment's id as their name. A backup or an administrator has another one.
        """
        return client in (self.environment, API_CLIENT)

    @property
    def queue_subjects(self) -> list[str]:
        """The subjects of the stream ``queue``; the consumer delivers the first."""
        return [f"ev.{self._own}.>", f"key.{self._own}.>"]

    @property
    def later_subjects(self) -> list[str]:
        """The subjects of the stream ``later``; the consumer delivers the first."""
        return [f"due.{self._own}.>", f"later.{self._own}.>"]

    @property
    def runs_subjects(self) -> list[str]:
        """The subjects of the stream ``runs``."""
        return [f"run.{self._own}.>"]

    @property
    def dead_letters_subjects(self) -> list[str]:
        """The subjects of the stream ``dead_letters``."""
        return [f"dead.{self._own}.>"]

    @property
    def history(self) -> str:
        """The subject of the environment's run history."""
        return f"history.{self._own}"

    @property
    def direct(self) -> str:
        """The subject of the environment's direct runs."""
        return f"direct.{self._own}"

    @property
    def calls(self) -> str:
        """The subject of the calls of agents in the environment."""
        return f"direct.{self._own}.calls"

    @property
    def control(self) -> str:
        """The subject at which the platform tells pods to cancel a run. It is not stored."""
        return f"control.{self._own}.cancel"

    @property
    def consumers(self) -> tuple[tuple[str, str], ...]:
        """The consumers of pods, each with its stream."""
        return (*((self.queue, consumer_of(one)) for one in LANES), (self.later, PODS))

    def lane(self, priority: int) -> str:
        """The subjects of the queue that the consumer of a priority delivers. Another number has the nearest one's."""
        return f"ev.{self._own}.{lane_token(priority)}.>"

    def event(self, task: str, run: str, priority: int = 0) -> str:
        """The subject of an event without a key."""
        return f"ev.{self._own}.{lane_token(priority)}.{task_token(task)}.{run}"

    def any_event(self, run: str) -> str:
        """The subjects at which an event without a key may be."""
        return f"ev.{self._own}.*.*.{run}"

    def key_token(self, key_hash: str) -> str:
        """The subject of the token that says that a key has events: one, whatever the priorities of those are."""
        return f"ev.{self._own}.{LANES[0]}.{KEY_TOKEN}.{key_hash}"

    def keyed_event(self, key_hash: str, run: str) -> str:
        """The subject of an event with a key."""
        return f"key.{self._own}.{key_hash}.{run}"

    def events_of_key(self, key_hash: str) -> str:
        """The subjects of all events with a key."""
        return f"key.{self._own}.{key_hash}.*"

    def waiting(self, run: str) -> str:
        """The subject of a run that waits. Publishing there again replaces what waits."""
        return f"later.{self._own}.{run}"

    def waiting_key(self, key_hash: str) -> str:
        """The subject of a key whose oldest event is to be tried again later."""
        return self.waiting(f"{KEY_TOKEN}-{key_hash}")

    def due_key(self, key_hash: str) -> str:
        """The subject of a key whose oldest event is to be tried again now."""
        return self.due(f"{KEY_TOKEN}-{key_hash}")

    def due(self, run: str) -> str:
        """The subject of a run whose time has come."""
        return f"due.{self._own}.{run}"

    def step(self, run: str, name: str, occurrence: int, *, place: int = 0) -> str:
        """The subject of a step's result. ``name`` may be any text; ``place`` is its position in the run's sequence."""
        return self.hashed_step(run, hashed(name), occurrence, place)

    def hashed_step(self, run: str, name_hash: str, occurrence: int, place: int) -> str:
        """See ``step``."""
        return f"run.{self._own}.{run}.step.{name_hash}.{occurrence}.{place}"

    def any_result(self) -> tuple[str, str]:
        """The subjects of results of steps and of outcomes of waits, of all runs: without claims."""
        return f"run.{self._own}.*.step.*.*.*", self.outcome("*", "*")

    def steps(self, run: str) -> str:
        """The subjects of the results of a run's steps."""
        return f"run.{self._own}.{run}.step.>"

    def steps_claim(self, run: str) -> str:
        """The subject that says which attempt may store results of the run's steps: who has published there last."""
        return f"run.{self._own}.{run}.step.~claim"

    def all_of_run(self, run: str) -> str:
        """The subjects of all that is kept for a run until it has ended, and for a while after it."""
        return f"run.{self._own}.{run}.>"

    def run_state(self, run: str) -> str:
        """The subject of the attempts of an event with a key."""
        return f"run.{self._own}.{run}.state"

    def ended(self, run: str) -> str:
        """The subject that says for a while that a run has ended, so that a pod that was paused does not repeat it."""
        return f"run.{self._own}.{run}.ended"

    def cancelled(self, run: str) -> str:
        """The subject that says for a while that somebody cancels a run, so that no pod tries it again."""
        return f"run.{self._own}.{run}.cancelled"

    def interruption(self, run: str) -> str:
        """The subject that says for a while why a pod ended in the middle of a run."""
        return f"run.{self._own}.{run}.interruption"

    def delivery(self, key_hash: str) -> str:
        """The subject that says for a while that a sender's request was accepted."""
        return f"run.{self._own}.~delivery.{key_hash}"

    def wait_rule(self, name: str, rule: str) -> str:
        """The subject of a way in which code waits for events of a name; ``*`` is any."""
        return f"run.{self._own}.~rule.{'*' if name == '*' else hashed(name)}.{rule}"

    def wait(self, index: str, run: str, wait: str, key_hash: str | None) -> str:
        """The subject of a run's wait. ``key_hash`` is that of the run's event, which waits in its key's order."""
        return f"run.{self._own}.~wait.{index}.{run}.{wait}.{key_hash or NO_KEY}"

    def waits(self, index: str) -> str:
        """The subjects of all waits for the same."""
        return f"run.{self._own}.~wait.{index}.>"

    def kept_event(self, index: str, run: str) -> str:
        """The subject of an event that runs can still wait for, by the event's run; ``*`` is any."""
        return f"run.{self._own}.~kept.{index}.{run}"

    def line(self, index: str) -> str:
        """The subject of what is known of the runs that start and wait at one limit of a throttled task."""
        return f"run.{self._own}.~line.{index}"

    def outcome(self, run: str, wait: str) -> str:
        """The subject of how a wait ended. It is removed with the run's steps."""
        return f"run.{self._own}.{run}.step.~outcome.{wait}"

    def approval(self, approval: str, run: str) -> str:
        """The subject of what a run asks; ``*`` is any."""
        return f"run.{self._own}.~approval.{approval}.{run}"

    def answered(self, approval: str) -> str:
        """The subject of how an approval ended; ``*`` is any."""
        return f"run.{self._own}.~answered.{approval}"

    def dead(self, run: str) -> str:
        """The subject of a dead letter."""
        return f"dead.{self._own}.{run}"

    @property
    def inbox(self) -> str:
        """The prefix of the subjects at which pods get answers."""
        return f"_INBOX.{self._own}"

    @property
    def api_inbox(self) -> str:
        """The prefix of the subjects at which the API gets answers. Pods may not listen there."""
        return f"_INBOX_API.{self._own}"

    def pods_publish(self) -> tuple[str, ...]:
        """What pods of the environment may publish to, with wildcards."""
        own = (self.queue, self.later, self.runs)
        return (
            *self.queue_subjects,
            self.waiting(">"),
            *self.runs_subjects,
            *self.dead_letters_subjects,
            self.history,
            *(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}" for stream, consumer in self.consumers),
            *(f"$JS.ACK.{stream}.{consumer}.>" for stream, consumer in self.consumers),
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in own),
            *(f"$JS.API.DIRECT.GET.{stream}" for stream in own),
            *(f"$JS.API.DIRECT.GET.{stream}.>" for stream in own),
            f"$JS.API.STREAM.MSG.DELETE.{self.queue}",
            f"$JS.API.STREAM.PURGE.{self.later}",
            f"$JS.API.STREAM.PURGE.{self.runs}",
        )

    def pods_subscribe(self) -> tuple[str, ...]:
        """What pods of the environment may subscribe to."""
        return (f"{self.inbox}.>", self.control)


def environment_account(platform: str, streams: EventStreams) -> str:
    """The id (public key) of an environment's account, by that of the platform's account.

    It follows from names alone, so everybody who may need it can compute it. Nobody has its private key: signing keys
    sign its users.
    """
    text = f"tieline environment account\n{platform}\n{streams.organisation}\n{streams.environment}"
    return account_id(hashlib.sha256(text.encode()).digest())


def environment_of(stream: str) -> str:
    """The environment whose stream this is, by the stream's name."""
    return stream.rpartition("_")[2]


def subject_parts(subject: str) -> list[str]:
    """What follows the organisation and the environment in a subject of an environment."""
    return subject.split(".")[3:]


def lane_token(priority: int) -> str:
    """The token of a priority in subjects of the queue."""
    return LANES[max(min(priority, max(LANES)), min(LANES))]


def consumer_of(priority: int) -> str:
    """The consumer of the queue that delivers events of a priority."""
    return PODS if priority == 0 else f"{PODS}-{lane_token(priority)}"


def queued_parts(subject: str) -> list[str]:
    """The task and the run of an event in the queue, or KEY_TOKEN and the hash of a key; less for another subject."""
    return subject_parts(subject)[1:]


def task_token(task: str) -> str:
    """A task's name as one token of a subject: dots separate tokens, and task names may have some."""
    return task.replace(".", "/")


def hashed(text: str) -> str:
    """A key or a name as one token of a subject: 32 hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
