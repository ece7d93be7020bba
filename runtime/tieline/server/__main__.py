"""``python -m tieline.server``: loads a project's code, and runs its webhooks and schedules until asked to stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from tieline.configuration.authorities import trusting_environment
from tieline.configuration.current import Configuration
from tieline.configuration.secret_environment import learn_environment, learn_files
from tieline.connectors.caller import Connectors
from tieline.errors import CodeError, ConfigurationError
from tieline.http_client.outcomes import OutcomeReporter
from tieline.http_client.session import new_client
from tieline.scheduling.claims import ClaimTerms
from tieline.scheduling.scheduler import Scheduler
from tieline.server import wiring
from tieline.server.applications import health_application, webhook_application
from tieline.server.code_loader import Tasks, load
from tieline.server.event_runs import EventRuns
from tieline.server.event_server import EventServer, event_server
from tieline.server.event_tasks import EventTasks
from tieline.server.interruptions import InterruptionReport
from tieline.server.run_history import DirectRuns
from tieline.server.schedule_registration import register
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.settings import Settings
from tieline.server.watchdog import Blocked, Watchdog, end_process, warn
from tieline.server.webhook_runs import Runner
from tieline.telemetry import logs, termination_message
from tieline.telemetry.exporter import Exporter
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Tracer
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol import http_server

logger = logging.getLogger("tieline")

# What is left of the grace to give claims back, once the runs under way had to be stopped.
_GIVING_BACK = 3.0


def main() -> None:
    """Run the server; exits with 1, and a termination message, when code or settings cannot be used."""
    # The first process of a container ignores SIGTERM unless it says otherwise; code may take long to load.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    redactor = Redactor()
    logs.configure(redactor)
    logs.leave_out_unused()
    learn_environment(redactor, os.environ)
    termination_log = Path(os.environ.get("TIELINE_TERMINATION_LOG", "/dev/termination-log"))
    try:
        if (environment := trusting_environment(os.environ)) is not None:
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606  (itself)
        learn_files(redactor, os.environ)
        settings = Settings.from_environment(os.environ)
        logging.getLogger().setLevel(settings.log_level)
        tasks = load(settings.code_dir, settings.packages_dir)
        _collect_seldom()
        uvloop.run(serve(settings, tasks, redactor))
    except (CodeError, ConfigurationError) as error:
        logger.critical("Cannot start: %s", error, exc_info=error.__cause__)
        termination_message.write(termination_log, error, redactor)
        sys.exit(1)


def _collect_seldom() -> None:
    """Tell the garbage collector that what is loaded stays, and that runs make few cycles.

    Spans that wait for their export make it look for cycles in vain: a tenth of a run's processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def serve(settings: Settings, tasks: Tasks, redactor: Redactor) -> None:
    """Run ``tasks`` until SIGTERM or SIGINT, then drain.

    Draining: claiming no scheduled runs at once, still accepting requests until none has come for the drain delay
    (see ``serving.leaving``), then no new connections, and up to the grace for runs and background work in flight.
    Raises ConfigurationError when the connections file cannot be used at the start.
    """
    stop = _stop_signals()
    source = wiring.source_of(settings)
    configuration = Configuration(redactor=redactor, needed=source is not None)
    exporter = wiring.exporter_of(settings, redactor)
    # The API is inside of the cluster, where connections may not go.
    async with new_client(settings.egress) as client, new_client() as to_api:
        configuration.tokens = wiring.tokens_of(settings, redactor, client, to_api)
        configuration.gate = gate = wiring.gate_of(settings, to_api)
        configuration.outcomes = outcomes = wiring.outcomes_of(settings, to_api)
        users = wiring.users_of(settings, configuration, to_api)
        documents = wiring.documents_of(settings, to_api)
        events = event_server(
            settings, tasks, wiring.run_reports_of(settings, to_api), wiring.platform_of(settings, to_api)
        )
        runner = Runner(
            limits=wiring.limits_of(settings),
            configuration=configuration,
            client=client,
            run_metadata=wiring.run_metadata_of(settings),
            users=users,
            tracer=Tracer(exporter.take, redactor),
            documents=documents,
            publisher=events.publisher,
            history=events.direct_history,
            connectors=Connectors(settings.code_dir, settings.answer_checks, settings.request_checks),
        )
        scheduled = ScheduledRuns(
            runner.calls, users=users, counts=runner.counts, timeout=settings.schedule_timeout
        )
        scheduler = Scheduler(
            tasks.schedules.values(),
            documents=documents,
            people=users,
            run=scheduled.run,
            terms=ClaimTerms(seconds=settings.claim),
            controls=lambda: configuration.current.schedules,
        )
        configuration.followers.append(scheduler.look)
        application = webhook_application(tasks.webhooks, runner, max_body=settings.max_body)
        event_runs = EventRuns(
            runner.calls,
            tasks=EventTasks(
                events=tasks.events,
                webhooks=tasks.webhooks,
                schedules=tasks.schedules,
                waits=tasks.waits,
                schedule_timeout=settings.schedule_timeout,
                application=application,
            ),
            queue=events.queue,
            history=events.history,
            users=users,
            counts=runner.counts,
            timeout=settings.event_timeout,
            version=settings.version,
        )
        webhook_server = await _listen(
            application,
            host=settings.host,
            port=settings.port,
            descriptor=settings.listen_fd,
            grace=settings.grace,
        )
        events.runs = event_runs
        gauges = {**wiring.gauges_of(runner, exporter, gate), **events.gauges()}
        health_server = await _listen(
            health_application(
                ready=lambda: _not_ready(runner, configuration, events),
                metrics=lambda: runner.counts.text(gauges) + gate.metrics.text(),
            ),
            host=settings.host,
            port=settings.health_port,
            descriptor=settings.health_listen_fd,
            grace=1,
        )
        # Connect after listening: a port that is taken ends the server before the cleanup below can end this task.
        events.connect(keeps_inputs=lambda: configuration.current.keep_inputs)
        feed = asyncio.create_task(source.run(configuration.publish)) if source else None
        sending = asyncio.create_task(_send(exporter, outcomes))
        starting = asyncio.create_task(
            _start(
                configuration,
                scheduler.start,
                lambda: events.start(event_runs, capacity=settings.max_runs),
            )
        )
        reporting = _reporting(settings, to_api, tasks, runner, configuration)
        _tell(tasks)
        watchdog = _watching(settings, event_runs, runner.calls.direct_runs, redactor)
        loop = asyncio.get_running_loop()
        try:
            await _until_stopped(stop, feed)
            scheduler.stop()
            await events.stop()
            logger.info("Stopping: draining until no request came for %g seconds", settings.drain_delay)
            await runner.leaving.wait(silence=settings.drain_delay, longest=settings.drain_limit)
        finally:
            await cancel_and_wait(starting, *reporting)
            deadline = loop.time() + settings.grace - min(_GIVING_BACK, settings.grace / 2)
            await asyncio.gather(
                scheduler.drain(deadline - loop.time()),
                events.drain(deadline - loop.time()),
                webhook_server.cleanup(),
            )
            # Runs may have left work for after their answer.
            await runner.background.drain(deadline - loop.time())
            await health_server.cleanup()
            await events.close()
            await cancel_and_wait(feed)
            await cancel_and_wait(sending)
            await exporter.flush()
            watchdog.stop()
            runner.close()
    logger.info("Stopped")


def _reporting(
    settings: Settings,
    to_api: aiohttp.ClientSession,
    tasks: Tasks,
    runner: Runner,
    configuration: Configuration,
) -> "list[asyncio.Task[None]]":
    """Reports to the platform: which schedules the code has, and whether the pod works."""
    platform = wiring.platform_of(settings, to_api)
    if platform is None:
        return []
    schedules = partial(register, platform, settings.version, tasks.schedules.values())
    activity = wiring.activity_of(platform, configuration, runner, schedules)
    configuration.followers.append(activity.configured)
    return [asyncio.create_task(schedules()), asyncio.create_task(activity.run())]


def _watching(settings: Settings, runs: EventRuns, direct: DirectRuns, redactor: Redactor) -> Watchdog:
    def report(blocked: Blocked) -> None:
        termination_message.write_text(settings.termination_log, str(blocked), redactor)
        logger.critical("%s. The process ends", blocked, extra={"execution_id": blocked.run})

    report_run = InterruptionReport(settings=settings, event=runs.interruption, direct=direct.interrupted)
    watchdog = Watchdog(
        seconds=settings.blocked_limit,
        code=settings.code_dir,
        run_of=lambda task: runs.run_of(task) or direct.run_of(task),
        blocked=partial(end_process, report=report, report_run=report_run) if settings.blocked_ends else warn,
    )
    watchdog.start()
    return watchdog


async def _send(exporter: Exporter, outcomes: OutcomeReporter | None) -> None:
    """Send spans, and reports of refused requests, until cancelled."""
    await asyncio.gather(exporter.run(), *([outcomes.run()] if outcomes else []))


async def _start(configuration: Configuration, *begin: Callable[[], None]) -> None:
    """Begin with schedules and events as soon as their runs would have connections."""
    await configuration.arrived.wait()
    for call in begin:
        call()


def _tell(tasks: Tasks) -> None:
    logger.info("Serving the webhooks %s", ", ".join(sorted(tasks.webhooks)) or "(none)")
    for name, schedule in sorted(tasks.schedules.items()):
        logger.info("Following the schedule %s: %s", name, schedule.times)
    if tasks.events:
        logger.info("Running the events %s", ", ".join(sorted(tasks.events)))
    if tasks.waits:
        logger.info("Runs can wait for the events %s", ", ".join(sorted(tasks.waits)))


def _stop_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(stop: asyncio.Event, feed: "asyncio.Task[None] | None") -> None:
    """Wait for a signal; a source that gives up (it never does by itself) ends the server with its error."""
    waiting: set[asyncio.Task[object]] = {asyncio.create_task(stop.wait())}
    if feed is not None:
        waiting.add(feed)
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _not_ready(runner: Runner, configuration: Configuration, events: EventServer) -> str | None:
    if runner.leaving.closed:
        return "stopping"
    if not configuration.obtained:
        return "waiting for the configuration from the API"
    if events.waits_for_streams:
        return "waiting for the environment's streams in the event engine"
    return None


async def _listen(
    application: web.Application, *, host: str | None, port: int, descriptor: int | None, grace: float
) -> web.AppRunner:
    server = http_server.Runner(application, access_log=None, handle_signals=False, shutdown_timeout=grace)
    await server.setup()
    try:
        if descriptor is None:
            await web.TCPSite(server, host, port).start()
        else:
            await web.SockSite(server, socket.socket(fileno=descriptor)).start()
    except OSError as error:
        await server.cleanup()
        raise ConfigurationError(f"Port {port} cannot be listened on: {error.strerror}") from error
    return server


if __name__ == "__main__":
    main()
