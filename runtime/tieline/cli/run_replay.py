"""The last attempt of a recorded run, for ``tieline run --replay``: ``python -m tieline.cli.run_replay FILE``.

Steps return what was recorded, and requests get recorded answers. Nothing is sent, nothing has a time-out, and input
and output are the terminal's: so a debugger works.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import aiohttp

from tieline.cli.recorded_answers import RecordedClient, recorded_client
from tieline.configuration.current import Configuration
from tieline.configuration.file_source import FileSource
from tieline.configuration.users import ConfiguredUsers
from tieline.connectors.caller import Connectors
from tieline.errors import CodeError, ConfigurationError
from tieline.events.event import EventTask
from tieline.events.memory import MemoryQueue
from tieline.events.queue import Delivery
from tieline.events.run_store import KeptStep
from tieline.events.run_waits import batch_step
from tieline.events.stored_batch import looks_like_batch
from tieline.events.wait_store import KeptEvent, Outcome, Wait
from tieline.server.code_loader import Tasks, load
from tieline.server.event_runs import EventRuns
from tieline.server.event_server import EventServer
from tieline.server.event_tasks import EventTasks
from tieline.server.run_now import settled
from tieline.server.settings import Settings
from tieline.server.webhook_runs import Runner
from tieline.server.wiring import limits_of, run_metadata_of
from tieline.state.documents import MemoryDocuments
from tieline.telemetry import logs
from tieline.telemetry.redaction import Redactor
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.kept_results import KeptOutcome, KeptResult
from tieline_protocol.recordings import MAX_RECORDING_BYTES, InvalidRecordingError, Recording
from tieline_protocol.run_records import ENDED

logger = logging.getLogger("tieline")


def main() -> None:
    """Run it; exits with 1 when it fails, or when file or code cannot be used."""
    redactor = Redactor()
    logs.configure(redactor)
    try:
        settings = Settings.from_environment(os.environ)
        logging.getLogger().setLevel(settings.log_level)
        recording = read(Path(sys.argv[1]))
        tasks = load(settings.code_dir, settings.packages_dir)
        if recording.metadata.task not in tasks.events:
            raise ConfigurationError(
                f"The code has no event {recording.metadata.task!r}, which the run was for"
            )
        sys.exit(asyncio.run(_replay_offline(tasks, recording, settings, redactor)))
    except (CodeError, ConfigurationError) as error:
        logger.critical("Cannot start: %s", error, exc_info=error.__cause__)
        sys.exit(1)


def read(path: Path) -> Recording:
    """The recording in a file. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            return Recording.parse(file.read(MAX_RECORDING_BYTES + 1))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except InvalidRecordingError as error:
        raise ConfigurationError(f"{path} is no recording of a run: {error}") from None


async def _replay_offline(tasks: Tasks, recording: Recording, settings: Settings, redactor: Redactor) -> int:
    async with recorded_client(recording.answers) as client:
        return await _replay(tasks, recording, settings, redactor, client)


async def _replay(
    tasks: Tasks, recording: Recording, settings: Settings, redactor: Redactor, client: RecordedClient
) -> int:
    configuration = Configuration(redactor=redactor, needed=False)
    configuration.publish(FileSource(settings.connections_file, schema=settings.schema_file).snapshot())
    users = ConfiguredUsers(configuration)
    metadata, queue = _metadata_of(recording), MemoryQueue()
    if metadata.user is not None and await users.find(metadata.user) is None:
        raise ConfigurationError(
            f"The run was for the user {metadata.user!r}; add it to the connections file under users"
        )
    events = EventServer(tasks, queue, settings.version)
    runner = Runner(
        limits=limits_of(settings),
        configuration=configuration,
        client=cast(aiohttp.ClientSession, client),
        run_metadata=run_metadata_of(settings),
        users=users,
        documents=MemoryDocuments(),
        publisher=events.publisher,
        connectors=Connectors(settings.code_dir, settings.answer_checks, settings.request_checks),
    )
    runs = EventRuns(
        runner.calls,
        tasks=EventTasks(events=_unlimited(tasks.events), waits=tasks.waits),
        queue=queue,
        history=events.history,
        users=users,
        counts=runner.counts,
        timeout=0,
        version=settings.version,
        waits_for_batches=False,
    )
    events.connect()

    async def handle(delivery: Delivery) -> None:
        if delivery.metadata.run == metadata.run:
            await runs.run(delivery)
            return
        logger.info("The code published an event for %s, which is not run here", delivery.metadata.task)
        await delivery.done()

    try:
        await _record(queue, recording)
        await queue.publish(replace(metadata, event_id=None), recording.payload.encode())
        await queue.run_ready(handle)
        await settled(runner)
    finally:
        await events.close()
        runner.close()
    if runs.retries or runs.dead:
        return 1
    if not any(one.id == metadata.run and one.status in ENDED for one in queue.history):
        logger.warning("The run sleeps or waits at this place: the recording has nothing that comes after it")
    return 0


def _unlimited(tasks: Mapping[str, EventTask]) -> dict[str, EventTask]:
    """The tasks without time-outs of their own."""
    return {name: replace(task, timeout=None) for name, task in tasks.items()}


def _metadata_of(recording: Recording) -> EventMetadata:
    """A recording does not say whether it is of a batch: an event of one has a step for it."""
    metadata = recording.metadata
    is_member = any(step.name == batch_step(metadata.task) for step in recording.steps)
    return replace(metadata, batch=not is_member and looks_like_batch(recording.payload.encode()))


async def _record(queue: MemoryQueue, recording: Recording) -> None:
    """Has the run find the recorded steps, up to one in its sequence whose result is missing."""
    run = recording.metadata.run
    claim = await queue.runs.claim_steps(run, any_kept=True)
    for step in recording.steps:
        if step.missing == "large":
            logger.warning(
                "The result of the step %r was not kept: it is done here, and those after it", step.name
            )
            if step.place:
                return
            continue
        if step.missing == "masked":
            logger.warning("The result of the step %r has secrets that are masked", step.name)
        await queue.runs.save_step(run, _kept(step), claim=claim)
        if step.outcome is not None:
            await queue.waits.decide(Wait(index="", run=run, name=step.outcome.wait), _outcome(step.outcome))


def _kept(step: KeptResult) -> KeptStep:
    if step.name_hash != hashed(step.name):
        raise ConfigurationError(
            f"The name of the step {step.name!r} has a secret that is masked: put the name into the file"
        )
    return KeptStep(
        name=step.name,
        occurrence=step.occurrence,
        place=step.place,
        work=step.work,
        version=step.version,
        run=step.run,
        result=step.result.encode(),
    )


def _outcome(outcome: KeptOutcome) -> Outcome:
    if outcome.event is None:
        return Outcome()
    event = KeptEvent(metadata=EventMetadata.parse({HEADER: outcome.event}), payload=outcome.payload.encode())
    return Outcome(event=event)


if __name__ == "__main__":
    main()
