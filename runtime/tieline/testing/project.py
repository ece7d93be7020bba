"""A project in a test: the runtime serves its code, and everything that it talks to is a fake."""

import dataclasses
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from aiohttp import web

from tieline.configuration.current import Configuration
from tieline.configuration.local_tokens import LocalAccessTokens
from tieline.configuration.project_folder import find
from tieline.configuration.secret_environment import learn_environment
from tieline.configuration.snapshot import Connection, parse
from tieline.configuration.users import ConfiguredUsers
from tieline.connectors.answers import AnswerChecks
from tieline.connectors.caller import Connectors
from tieline.context import Named, RunMetadata
from tieline.events.asked_approval import AskedApproval
from tieline.events.local_answers import Given, Person, answer_locally, signal_locally
from tieline.events.memory import MemoryQueue
from tieline.events.publisher import Publisher
from tieline.http_client import retries
from tieline.http_client.session import Session, new_client
from tieline.server.applications import webhook_application
from tieline.server.event_runs import EventRuns
from tieline.server.event_server import EventServer
from tieline.server.event_tasks import EventTasks
from tieline.server.run_now import run_now, settled
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.webhook_runs import Limits, Runner
from tieline.server.write_watcher import WHAT_TO_DO, is_visible, watch_writes
from tieline.state.activation_state import State
from tieline.state.documents import Documents, MemoryDocuments
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Span, Tracer
from tieline.testing import project_configuration as made
from tieline.testing.answer import Answer
from tieline.testing.emulated_provider import EmulatedProvider, EmulatedTokens, ProjectSide
from tieline.testing.event_attempt import DeadLetter, EventAttempt, is_outcome
from tieline.testing.fake_connections import FakeConnection, UnexpectedRequestError
from tieline.testing.fake_limits import FakeLimits
from tieline.testing.isolation import LoopThread, loaded
from tieline.testing.log_capture import LogCapture, LogEntry
from tieline.testing.tagged_runs import DirectRecords, TaggedRun, tagged_runs
from tieline_protocol.approvals import roles_below

T = TypeVar("T")

_LONGEST = 70.0
_TIMEOUT = aiohttp.ClientTimeout(total=_LONGEST)
_LIMITS = Limits(max_body=10 * 1024 * 1024, max_runs=100, run_timeout=60)
_SOME_LIMITS = {"requests": 1, "per": "1m"}
_logger = logging.getLogger("tieline")
_warned: set[str] = set()
"""Files that a test has warned of: one warning a session is enough."""


class RunFailedError(AssertionError):
    """A schedule's run did not succeed; the message names the users, and has the errors."""

    def __init__(self, message: str, *, users: Mapping[str, str]) -> None:
        super().__init__(message)
        self.users = dict(users)
        """How the runs that did not succeed ended, by their users' external ids; the static activation's is empty."""


class Project:
    """A project's code on the runtime, for one test. Use it in ``with``, or by the fixture ``tieline_project``.

    Connections, users and variables are those of the project's connections file, if it has one; every connection
    leads to a FakeConnection on this machine. What the runtime would wait between repeated requests is not waited.
    """

    def __init__(
        self, folder: Path | str, *, connections: Path | None = None, schema: Path | None = None
    ) -> None:
        self._folder = find(Path(folder), connections=connections, schema=schema)
        self._stack = ExitStack()
        self._redactor = Redactor()
        self._configuration = Configuration(redactor=self._redactor, needed=False)
        self._captured = LogCapture(self._redactor)
        self._fakes: dict[tuple[str | None, str], FakeConnection] = {}
        self._body: made.Body = {}
        self._writes: set[str] = set()
        self._test_thread: int | None = None
        self._offset = 0.0
        self._connectors = Connectors(self._folder.code, AnswerChecks.RAISE)
        self._documents = MemoryDocuments(clock=self.now)
        self._queue = MemoryQueue(clock=self.now)
        self._direct = DirectRecords()
        self.spans: list[Span] = []
        """The spans that have ended, oldest first."""
        self.waits: list[float] = []
        """The seconds that would have been waited before requests were sent again."""
        self.module: ModuleType
        """The project's main.py."""

    def __enter__(self) -> "Project":
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def _enter(self) -> None:
        stack = self._stack
        learn_environment(self._redactor, os.environ)
        self._body = made.body_of(self._folder)
        stack.callback(self._warn_of_writes)
        stack.callback(watch_writes(self._folder.code, self._written))
        self.module, self._tasks = stack.enter_context(loaded(self._folder.code))
        # From now on this thread is the test's own.
        self._test_thread = threading.get_ident()
        self._capture()
        self._threads = LoopThread()
        stack.callback(self._threads.close)
        self._client: aiohttp.ClientSession = self._wait(self._open())
        stack.callback(lambda: self._wait(self._client.close()))
        self._connect()
        local = LocalAccessTokens(self._client, self._redactor.learn, now=self.now)
        self._configuration.tokens = EmulatedTokens(local, self._is_emulated)
        self._configuration.gate = FakeLimits(
            self._fakes.values, clock=self.now, run_timeout=_LIMITS.run_timeout, waits=self.waits
        )
        self._events = EventServer(self._tasks, self._queue, "test")
        self._runner = Runner(
            limits=_LIMITS,
            configuration=self._configuration,
            client=self._client,
            run_metadata=_run_metadata(self._folder.name),
            tracer=Tracer(self.spans.append, self._redactor),
            documents=self._documents,
            publisher=self._publisher(),
            history=self._direct,
            connectors=self._connectors,
        )
        self._scheduled = ScheduledRuns(
            self._runner.calls,
            users=ConfiguredUsers(self._configuration),
            counts=self._runner.counts,
            timeout=_LIMITS.run_timeout,
        )
        stack.callback(self._runner.close)
        application = webhook_application(self._tasks.webhooks, self._runner, max_body=_LIMITS.max_body)
        self._wait(self._connect_events())
        stack.callback(lambda: self._wait(self._events.close()))
        self._event_runs = EventRuns(
            self._runner.calls,
            tasks=EventTasks(
                events=self._tasks.events,
                webhooks=self._tasks.webhooks,
                waits=self._tasks.waits,
                application=application,
            ),
            queue=self._queue,
            history=self._events.history,
            users=ConfiguredUsers(self._configuration),
            counts=self._runner.counts,
            timeout=_LIMITS.run_timeout,
            version="test",
            clock=self.now,
            waits_for_batches=False,
        )
        server = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        stack.callback(lambda: self._wait(server.cleanup()))
        self._url = self._wait(_listen(server))

    def _written(self, path: str) -> None:
        if threading.get_ident() != self._test_thread and is_visible(path, self._folder.code):
            self._writes.add(path)

    def _warn_of_writes(self) -> None:
        for path in sorted(self._writes - _warned):
            _warned.add(path)
            name = Path(path).relative_to(self._folder.code.resolve())
            warnings.warn(f"{name} is written by the code itself: {WHAT_TO_DO}", stacklevel=2)

    def _capture(self) -> None:
        before = _logger.level
        _logger.addHandler(self._captured)
        _logger.setLevel(logging.DEBUG)
        self._stack.callback(_logger.setLevel, before)
        self._stack.callback(_logger.removeHandler, self._captured)
        waited = retries.pause

        async def pause(seconds: float) -> None:
            if seconds:
                self.waits.append(seconds)

        retries.pause = pause
        self._stack.callback(setattr, retries, "pause", waited)

    async def _open(self) -> aiohttp.ClientSession:
        return new_client()

    @property
    def logs(self) -> list[LogEntry]:
        """What code and runtime have logged, oldest first."""
        return self._captured.entries

    @property
    def tagged_runs(self) -> list[TaggedRun]:
        """The runs that the code has tagged by ``ctx.tag``, oldest first."""
        return tagged_runs([*self._direct.records, *self._queue.history])

    @property
    def variables(self) -> Mapping[str, Any]:
        """The static activation's variables; assign to change them."""
        variables: Mapping[str, Any] = self._body["variables"]
        return variables

    @variables.setter
    def variables(self, values: Mapping[str, Any]) -> None:
        self._body["variables"] = dict(values)
        self._connect()

    def user(self, external_id: str, *, variables: Mapping[str, Any] | None = None) -> None:
        """Give the user an activation, or its activation other variables."""
        made.add_user(self._body, external_id, variables)
        self._connect()

    def connection(
        self,
        template: str,
        *,
        user: str | None = None,
        credentials: Iterable[Mapping[str, Any]] | None = None,
        expose_to_code: bool | None = None,
    ) -> FakeConnection:
        """The fake that a template leads to: the static connection, or that of a user of a dynamic template.

        It is made when there is none; ``credentials`` (as in a connections file) take the place of those it has.
        ``expose_to_code`` opens them to ``ctx.credentials``, or (False) is a connection that its owner did not open.
        """
        key = (user, template)
        if key not in self._fakes:
            made.add_connection(self._body, template, user=user)
        owner = self._body if user is None else self._body["users"][user]
        if credentials is not None:
            owner["connections"][template]["credentials"] = [dict(item) for item in credentials]
        if expose_to_code is not None:
            owner["connections"][template]["exposeToCode"] = expose_to_code
        self._connect()
        return self._fakes[key]

    def get(self, path: str, **options: Any) -> Answer:
        """GET; see ``request``."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> Answer:
        """POST; see ``request``."""
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> Answer:
        """PUT; see ``request``."""
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        """DELETE; see ``request``."""
        return self.request("DELETE", path, **options)

    def request(
        self, method: str, path: str, *, user: str | None = None, caller: str | None = None, **options: Any
    ) -> Answer:
        """Run a webhook by a request, and return its answer; ``options`` are aiohttp's (``json``, ``data``, …).

        ``user`` runs it for that user's activation. ``caller`` shows, or signs with, the credentials of that
        template's connection, for webhooks with ``connection=``. Background work is waited for.
        Raises UnexpectedRequestError when the code sent a request that no fake has an answer for.
        """
        if user is not None:
            path = f"{path}/users/{quote(user, safe='')}"
        answer = self._wait(self._send(method, path, user, caller, options))
        self._wait(settled(self._runner))
        self.check()
        return answer

    def run_schedule(
        self, name: str, *, at: datetime | None = None, user: str | None = None, attempt: int = 1
    ) -> None:
        """Run a schedule as if it were due ``at`` a time (now); for all its users, or for ``user`` alone.

        Raises RunFailedError when a run fails, UnexpectedRequestError as ``request`` does, and KeyError when there is
        no such schedule. Background work is waited for.
        """
        logged = len(self.logs)
        ended = self._wait(
            run_now(
                self._tasks.schedules[name],
                scheduled=self._scheduled,
                runner=self._runner,
                users=self._configuration.current.users,
                user=user,
                due=at,
                attempt=attempt,
            )
        )
        self.check()
        if ended.failures:
            errors = [
                entry.error or entry.message for entry in self.logs[logged:] if entry.severity == "ERROR"
            ]
            raise RunFailedError(
                f"The schedule {name!r} {ended}:\n" + "\n".join(errors), users=ended.failures
            )

    def now(self) -> float:
        """The time of events and retries, in seconds since 1970: the real one, and what ``advance`` added."""
        return time.time() + self._offset

    def publish(
        self, task: str, payload: Any, *, key: str | None = None, user: str | None = None, **options: Any
    ) -> str | None:
        """Publish an event as ``ctx.publish`` does, and return its run's id; ``run_events`` runs it."""
        return self._wait(self._publisher().publish(task, payload, key=key, user=user, **options))

    def _publisher(self) -> Publisher:
        return Publisher(
            self._queue, self._tasks.events, version="test", clock=self.now, waits=self._tasks.waits
        )

    def run_events(self) -> list[EventAttempt]:
        """Run the events and queued webhooks that are ready, and those that they publish; how each attempt ended.

        One that failed waits for its retry: ``advance`` lets time go by. Raises UnexpectedRequestError as ``request``
        does.
        """
        before = len(self._queue.history)
        self._wait(self._run_ready())
        self.check()
        return [EventAttempt.of(record) for record in self._queue.history[before:] if is_outcome(record)]

    def advance(self, duration: float | timedelta) -> list[EventAttempt]:
        """Let time go by (seconds, or a timedelta), and run what becomes due on the way, each at its time."""
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        began, until = time.monotonic(), self.now() + seconds
        attempts = self.run_events()
        # The real clock goes on: a sleep of ``duration`` that has begun here ends as much later.
        while (due := self._queue.next_due) is not None and due <= until + time.monotonic() - began:
            self._offset += max(due - self.now(), 0.0)
            attempts += self.run_events()
        self._offset += max(until - self.now(), 0.0)
        return attempts

    @property
    def unpatched(self) -> set[str]:
        """Names of patches: runs that begin from now on are as if from before them, so ``ctx.patched`` is False."""
        return self._queue.runs.unpatched

    @property
    def approvals(self) -> list[AskedApproval]:
        """What runs have asked by ``ctx.approve``, oldest first."""
        return [
            AskedApproval.of(approval, outcome, self.now())
            for approval, outcome in self._queue.waits.approvals()
        ]

    def answer(
        self,
        approval: AskedApproval,
        *,
        approved: bool,
        by: str = "test",
        role: str | None = "tieline-editor",
        groups: Iterable[str] = (),
        comment: str = "",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Approve or reject, as somebody of this name, role and groups does by REST; ``run_events`` continues the run.

        Raises ApprovalRefusedError where the platform would refuse it.
        """
        person = Person(name=by, roles=roles_below(role), groups=tuple(groups))
        given = Given(approved=approved, comment=comment, values=values)
        self._wait(answer_locally(self._queue, approval.id, person, given, now=self.now()))

    def signal(self, run_id: str, name: str, payload: Any = None, *, by: str = "test") -> None:
        """Send a signal to a run, as somebody of this name does by REST; ``run_events`` continues the run.

        Raises ValueError for a name or a payload that no signal can have, and for a run that has ended or is not known.
        """
        if not self._wait(self._queue.has_run(run_id)):
            raise ValueError(f"No run {run_id} is here, or it has ended")
        self._wait(signal_locally(self._queue, run_id, name, payload, by=by, now=self.now()))

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """The events that are not tried again, oldest first."""
        return [DeadLetter.of(letter) for letter in self._queue.dead_letters]

    @property
    def waiting_events(self) -> int:
        """How many events and queued webhooks have not ended: they are ready, or wait for a time."""
        return self._queue.pending

    async def _connect_events(self) -> None:
        self._events.connect()

    async def _run_ready(self) -> None:
        await self._queue.run_ready(self._event_runs.run)
        await self._events.history.flush(_LONGEST)
        await settled(self._runner)

    @property
    def state(self) -> "ProjectState":
        """What the integration remembers between runs."""
        return ProjectState(self._documents, self._wait)

    def check(self) -> None:
        """Raise UnexpectedRequestError for requests that no fake had an answer for; ``request`` does it too."""
        unexpected = [text for fake in self._fakes.values() for text in fake.unexpected]
        for fake in self._fakes.values():
            fake.unexpected.clear()
        if unexpected:
            raise UnexpectedRequestError("\n\n".join(unexpected))

    async def _send(
        self, method: str, path: str, user: str | None, caller: str | None, options: dict[str, Any]
    ) -> Answer:
        options = {"allow_redirects": False, "timeout": _TIMEOUT, **options}
        if caller is None:
            sent = self._client.request(method, self._url + path, **options)
        else:
            snapshot = self._configuration.current
            connection = snapshot.connection(caller, snapshot.users.get(user or ""))
            own = dataclasses.replace(made.of_sender(connection), base_url=self._url)
            sent = Session(self._client, lambda: own).request(method, path, retries=0, **options)
        async with sent as response:
            return Answer(status=response.status, headers=response.headers.copy(), body=await response.read())

    def _connect(self) -> None:
        """Make the configuration that of ``_body``, each connection leading to its fake."""
        for user, name, connection in made.connections(self._body):
            key = (user, name)
            if key not in self._fakes:
                fake = FakeConnection(
                    name,
                    base_path=made.base_path(connection),
                    clock=self.now,
                    on_limit=self._connect,
                    descriptions=self._connectors.descriptions,
                )
                self._wait(fake.start())
                self._stack.callback(partial(self._stop, fake))
                self._fakes[key] = fake
            connection["baseUrl"] = self._fakes[key].url
            if self._fakes[key].has_limits:
                connection.setdefault("limits", dict(_SOME_LIMITS))
            made.with_access_tokens(connection)
        self._configuration.publish(parse(self._body))

    def provider(self, key: str, *, template: str | None = None) -> EmulatedProvider:
        """A provider of the catalogue (``slack``) behind a template, by default that of the same name.

        The connection is signed in, and its tokens are refreshed at the provider as the platform does it.
        """
        name = template or key
        made.add_connection(self._body, name)
        provider = EmulatedProvider(
            key,
            template=name,
            clock=self.now,
            on_limit=self._connect,
            descriptions=self._connectors.descriptions,
            project=ProjectSide(
                url=lambda: self._url,
                send=lambda path, body, headers: self.request("POST", path, data=body, headers=headers),
                keep_credential=self._keep,
            ),
        )
        self._wait(provider.start())
        self._stack.callback(partial(self._stop, provider))
        self._fakes[None, name] = provider
        self._body["connections"][name] = provider.connection_body()
        self._connect()
        return provider

    def _keep(self, template: str, credential: Mapping[str, Any]) -> None:
        self.connection(template, credentials=[credential])

    def _is_emulated(self, connection: Connection) -> bool:
        return isinstance(self._fakes.get((None, connection.template)), EmulatedProvider)

    def _stop(self, fake: FakeConnection) -> None:
        self._wait(fake.stop())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._threads.run(work, timeout=_LONGEST)


class ProjectState:
    """``project.state.get("cursor")``; with ``user``, the state of that user's activation."""

    def __init__(self, documents: Documents, wait: Callable[[Any], Any]) -> None:
        self._documents = documents
        self._wait = wait

    def get(self, key: str, default: Any = None, *, user: str | None = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self._wait(State(self._documents, user).get(key, default))

    def set(
        self,
        key: str,
        value: Any,
        *,
        user: str | None = None,
        expires: float | timedelta | None = None,
    ) -> None:
        """Keep ``value``, as a run before would have. Project.advance turns the clock by which it expires."""
        self._wait(State(self._documents, user).set(key, value, expires=expires))

    def keys(self, prefix: str = "", *, user: str | None = None) -> list[str]:
        """The keys of all values, or of those whose keys begin with ``prefix``, in order."""
        return self._wait(State(self._documents, user).keys(prefix))  # type: ignore[no-any-return]


async def _listen(server: web.AppRunner) -> str:
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    return f"http://127.0.0.1:{server.addresses[0][1]}"


def _run_metadata(name: str) -> RunMetadata:
    return RunMetadata(
        organisation_id="test-organisation",
        project=Named(id="test-project", name=name),
        environment=Named(id="test-environment", name="test"),
        version="test",
        public_url="",
    )
