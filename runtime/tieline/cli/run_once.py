"""One run of a schedule, for ``tieline run --once``: ``python -m tieline.cli.run_once SCHEDULE [USER]``."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tieline.configuration.current import Configuration
from tieline.configuration.file_source import FileSource
from tieline.configuration.users import ConfiguredUsers
from tieline.errors import CodeError, ConfigurationError
from tieline.http_client.session import new_client
from tieline.scheduling.schedules import Schedule
from tieline.server.code_loader import load
from tieline.server.run_now import run_now
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.settings import Settings
from tieline.server.webhook_runs import Runner
from tieline.server.wiring import limits_of, run_metadata_of, tokens_of
from tieline.server.write_watcher import WHAT_TO_DO, is_visible, watch_writes
from tieline.state.documents import Documents, MemoryDocuments
from tieline.state.file_documents import FileDocuments
from tieline.telemetry import logs
from tieline.telemetry.redaction import Redactor

logger = logging.getLogger("tieline")


def main() -> None:
    """Run it; exits with 1 when a run fails, or when there is no such schedule."""
    redactor = Redactor()
    logs.configure(redactor)
    name, user = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    try:
        settings = Settings.from_environment(os.environ)
        logging.getLogger().setLevel(settings.log_level)
        watch_writes(settings.code_dir, _warning(settings.code_dir))
        schedules = load(settings.code_dir).schedules
        if name not in schedules:
            known = ", ".join(sorted(schedules)) or "none"
            raise ConfigurationError(f"There is no schedule {name!r} (there are: {known})")
        sys.exit(asyncio.run(_once(schedules[name], user, settings, redactor)))
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


async def _once(schedule: Schedule, user: str | None, settings: Settings, redactor: Redactor) -> int:
    configuration = Configuration(redactor=redactor, needed=False)
    configuration.publish(FileSource(settings.connections_file, schema=settings.schema_file).snapshot())
    users = ConfiguredUsers(configuration)
    if user is not None and await users.find(user) is None:
        raise ConfigurationError(f"The connections file has no user {user!r}; add it under users")
    documents: Documents = FileDocuments(settings.state_file) if settings.state_file else MemoryDocuments()
    async with new_client(settings.egress) as client:
        configuration.tokens = tokens_of(settings, redactor, client, client)
        runner = Runner(
            limits=limits_of(settings),
            configuration=configuration,
            client=client,
            run_metadata=run_metadata_of(settings),
            users=users,
            documents=documents,
        )
        try:
            ended = await run_now(
                schedule,
                scheduled=ScheduledRuns(
                    runner.calls, users=users, counts=runner.counts, timeout=settings.schedule_timeout
                ),
                runner=runner,
                users=configuration.current.users,
                user=user,
            )
        finally:
            runner.close()
    if ended.failures:
        logger.error("Schedule %s %s", schedule.name, ended)
        return 1
    return 0


if __name__ == "__main__":
    main()
