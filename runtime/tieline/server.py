"""``python -m tieline.server``: loads a project's code and serves its webhooks until told to stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from tieline import logs, termination
from tieline.configuration.api_source import ApiSource
from tieline.configuration.current import Configuration, Source
from tieline.configuration.file_source import FileSource
from tieline.configuration.tokens import ApiTokens
from tieline.configuration.users import ApiUsers, ConfiguredUsers, Users
from tieline.context import Named, Surroundings
from tieline.errors import CodeError, ConfigurationError
from tieline.integration import Webhook
from tieline.loading import load
from tieline.outbound.session import new_client
from tieline.redaction import Redactor
from tieline.serving.applications import health_application, webhook_application
from tieline.serving.runs import Limits, Runner
from tieline.settings import Settings
from tieline.tracing.destination import destination
from tieline.tracing.exporter import Exporter
from tieline.tracing.spans import Tracer, Value

logger = logging.getLogger("tieline")


def main() -> None:
    """Run the server; exits with 1, and a termination message, when code or settings cannot be used."""
    # The first process of a container ignores SIGTERM unless it says otherwise; code may take long to load.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    redactor = Redactor()
    logs.configure(redactor)
    logs.leave_out_unused()
    termination_log = Path(os.environ.get("TIELINE_TERMINATION_LOG", "/dev/termination-log"))
    try:
        settings = Settings.from_environment(os.environ)
        logging.getLogger().setLevel(settings.log_level)
        tasks = load(settings.code_dir)
        _collect_seldom()
        uvloop.run(serve(settings, tasks.webhooks, redactor))
    except (CodeError, ConfigurationError) as error:
        logger.critical("Cannot start: %s", error, exc_info=error.__cause__)
        termination.write(termination_log, error, redactor)
        sys.exit(1)


def _collect_seldom() -> None:
    """Tell the garbage collector that what is loaded stays, and that runs make few cycles.

    Spans that wait for their export make it look for cycles in vain: a tenth of a run's processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def serve(settings: Settings, webhooks: Mapping[str, Webhook], redactor: Redactor) -> None:
    """Serve ``webhooks`` until SIGTERM or SIGINT, then drain.

    Draining: not ready at once, still accepting for the drain delay (until everyone who routes here has
    noticed), then no new connections, and up to the grace for runs in flight.
    Raises ConfigurationError when the connections file cannot be used at the start.
    """
    stop = _stop_signals()
    source = _source(settings)
    configuration = Configuration(redactor=redactor, needed=source is not None)
    exporter = _exporter(settings, redactor)
    # The API is inside of the cluster, where connections may not go.
    async with new_client(settings.egress) as client, new_client() as to_api:
        configuration.tokens = _tokens(settings, redactor, to_api)
        runner = Runner(
            limits=Limits(
                max_body=settings.max_body, max_runs=settings.max_runs, run_timeout=settings.run_timeout
            ),
            configuration=configuration,
            client=client,
            surroundings=_surroundings(settings),
            users=_users(settings, configuration, to_api),
            tracer=Tracer(exporter.take),
        )
        webhook_server = await _listen(
            webhook_application(webhooks, runner, max_body=settings.max_body),
            host=settings.host,
            port=settings.port,
            descriptor=settings.listen_fd,
            grace=settings.grace,
        )
        health_server = await _listen(
            health_application(ready=lambda: _not_ready(runner, configuration)),
            host=settings.host,
            port=settings.health_port,
            descriptor=settings.health_listen_fd,
            grace=1,
        )
        feed = asyncio.create_task(source.run(configuration.publish)) if source else None
        sending = asyncio.create_task(exporter.run())
        logger.info("Serving the webhooks %s", ", ".join(sorted(webhooks)) or "(none)")
        try:
            await _until_stopped(stop, feed)
            runner.draining = True
            logger.info("Stopping: draining for %g seconds", settings.drain_delay)
            await asyncio.sleep(settings.drain_delay)
        finally:
            await webhook_server.cleanup()
            await health_server.cleanup()
            await _cancel(feed)
            await _cancel(sending)
            await exporter.flush()
            runner.close()
    logger.info("Stopped")


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


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is None:
        return
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _not_ready(runner: Runner, configuration: Configuration) -> str | None:
    if runner.draining:
        return "stopping"
    if not configuration.obtained:
        return "waiting for the configuration from the API"
    return None


def _source(settings: Settings) -> Source | None:
    if settings.connections_file is not None or settings.schema_file is not None:
        return FileSource(settings.connections_file, schema=settings.schema_file)
    if settings.api_url is not None:
        return ApiSource(api_url=settings.api_url, token_file=settings.token_file)
    return None


def _users(settings: Settings, configuration: Configuration, client: aiohttp.ClientSession) -> Users:
    if settings.connections_file is not None or settings.api_url is None:
        return ConfiguredUsers(configuration)
    return ApiUsers(client, settings.api_url, settings.token_file, time.monotonic)


def _tokens(settings: Settings, redactor: Redactor, client: aiohttp.ClientSession) -> ApiTokens | None:
    if settings.connections_file is not None or settings.api_url is None:
        return None
    return ApiTokens(client, settings.api_url, settings.token_file, redactor.learn, time.monotonic)


def _exporter(settings: Settings, redactor: Redactor) -> Exporter:
    resource: dict[str, Value] = {
        "service.name": settings.project_name or "tieline",
        "service.version": settings.version,
        "deployment.environment.name": settings.environment,
    }
    target = destination(os.environ, api_url=settings.api_url, token_file=settings.token_file)
    return Exporter(target, resource=resource, redact=redactor)


def _surroundings(settings: Settings) -> Surroundings:
    return Surroundings(
        organisation_id=settings.organisation_id,
        project=Named(id=settings.project_id, name=settings.project_name),
        environment=Named(id=settings.environment_id, name=settings.environment),
        version=settings.version,
        public_url=settings.public_url,
    )


async def _listen(
    application: web.Application, *, host: str | None, port: int, descriptor: int | None, grace: float
) -> web.AppRunner:
    server = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=grace)
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
