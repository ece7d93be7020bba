"""One run of a schedule or an event, for ``tieline run --once``: ``python -m tieline.cli.run_once``.

Its arguments are the name, and as JSON the user (or null) and the event's payload.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tieline.configuration.current import Configuration
from tieline.configuration.file_source import FileSource
from tieline.configuration.users import ConfiguredUsers
from tieline.connectors.caller import Connectors
from tieline.errors import CodeError, ConfigurationError, TielineError, reason
from tieline.events.memory import MemoryQueue
from tieline.http_client.session import new_client
from tieline.server.code_loader import Tasks, load
from tieline.server.event_runs import EventRuns
from tieline.server.event_server import EventServer
from tieline.server.event_tasks import EventTasks
from tieline.server.run_now import run_now, settled
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.settings import Settings
from tieline.server.webhook_runs import Runner
from tieline.server.wiring import gate_of, limits_of, run_metadata_of, tokens_of
from tieline.server.write_watcher import WHAT_TO_DO, is_visible, watch_writes
from tieline.state.documents import Documents, MemoryDocuments
from tieline.state.file_documents import FileDocuments
from tieline.telemetry import logs
from tieline.telemetry.redaction import Redactor

logger = logging.getLogger("tieline")


def main() -> None:
    """Run it; exits with 1 when a run fails, or when there is no such schedule or event."""
    redactor = Redactor()
    logs.configure(redactor)
    name, user, payload = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    try:
        settings = Settings.from_environment(os.environ)
        logging.getLogger().setLevel(settings.log_level)
        watch_writes(settings.code_dir, _warning(settings.code_dir))
        tasks = load(settings.code_dir, settings.packages_dir)
        if name not in tasks.schedules and name not in tasks.events:
            known = ", ".join(sorted({*tasks.schedules, *tasks.events})) or "none"
            raise ConfigurationError(f"There is no schedule or event {name!r} (there are: {known})")
        sys.exit(asyncio.run(_once(tasks, name, user, payload, settings, redactor)))
    except (CodeError, ConfigurationError) as error:
        logger.critical("Cannot start: %s", error, exc_info=error.__cause__)
        sys.exit(1)


def _warning(code: Path) -> Callable[[str], None]:
    """Warns of each file that the code writes into its own folder, once."""
    known: set[str] = set()

    def warn(path: str) -> None:
        if path not in known and is_visible(path, code):
            known.add(path)
            logger.warning(
                "%s is written by the code itself: %s", Path(path).relative_to(code.resolve()), WHAT_TO_DO
            )

    return warn


async def _once(
    tasks: Tasks, name: str, user: str | None, payload: Any, settings: Settings, redactor: Redactor
) -> int:
    configuration = Configuration(redactor=redactor, needed=False)
    configuration.publish(FileSource(settings.connections_file, schema=settings.schema_file).snapshot())
    users = ConfiguredUsers(configuration)
    if user is not None and await users.find(user) is None:
        raise ConfigurationError(f"The connections file has no user {user!r}; add it under users")
    documents: Documents = FileDocuments(settings.state_file) if settings.state_file else MemoryDocuments()
    queue = MemoryQueue()
    events = EventServer(tasks, queue, settings.version)
    async with new_client(settings.egress) as client:
        configuration.tokens = tokens_of(settings, redactor, client, client)
        configuration.gate = gate_of(settings, client)
        runner = Runner(
            limits=limits_of(settings),
            configuration=configuration,
            client=client,
            run_metadata=run_metadata_of(settings),
            users=users,
            documents=documents,
            publisher=events.publisher,
            connectors=Connectors(settings.code_dir, settings.answer_checks, settings.request_checks),
        )
        event_runs = EventRuns(
            runner.calls,
            tasks=EventTasks(events=tasks.events, waits=tasks.waits),
            queue=queue,
            history=events.history,
            users=users,
            counts=runner.counts,
            timeout=settings.event_timeout,
            version=settings.version,
            waits_for_batches=False,
        )
        events.connect()
        failure = None
        try:
            if name in tasks.schedules:
                ended = await run_now(
                    tasks.schedules[name],
                    scheduled=ScheduledRuns(
                        runner.calls, users=users, counts=runner.counts, timeout=settings.schedule_timeout
                    ),
                    runner=runner,
                    users=configuration.current.users,
                    user=user,
                )
                failure = f"Schedule {name} {ended}" if ended.failures else None
            else:
                await _publish(events, name, payload, user)
            await queue.run_ready(event_runs.run)
            await settled(runner)
        finally:
            await events.close()
            runner.close()
    if event_runs.retries or event_runs.dead:
        failure = failure or f"Events that failed: {event_runs.retries + event_runs.dead}"
    if queue.pending:
        logger.warning("Events that wait for their time, and are not run: %d", queue.pending)
    if failure:
        logger.error("%s", failure)
        return 1
    return 0


async def _publish(events: EventServer, task: str, payload: Any, user: str | None) -> None:
    try:
        await events.publisher.publish(task, payload, user=user)
    except (TielineError, ValueError) as error:
        raise ConfigurationError(reason(error)) from None


if __name__ == "__main__":
    main()
