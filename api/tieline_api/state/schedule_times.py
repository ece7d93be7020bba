"""When a schedule is due next, and what it missed."""

from datetime import datetime, timedelta

from tieline_api.state.schedules import RegisteredSchedule, ScheduleProgress
from tieline_core.identity.ids import to_utc
from tieline_protocol.cron import Cron, CronError, parse_cron

GRACE = timedelta(minutes=5)
"""How late a run may begin until its due time counts as missed; notifications wait as long."""


def due_times(
    schedule: RegisteredSchedule, progress: ScheduleProgress, now: datetime, *, deployed_at: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """When it is due next, and the first due time that was missed, in UTC; None where that is unknown.

    What is known of earlier times of the schedule, or of a time before ``deployed_at``, is no reason to miss anything.
    """
    try:
        cron = parse_cron(schedule.cron, schedule.timezone)
        following = to_utc(cron.next(now))
        current = progress.times == f"{cron.expression} {cron.zone.key}"
        late = deployed_at is None or progress.settled is None or progress.settled < deployed_at
        missed = None if late or not current else _missed(cron, progress)
    except (CronError, OverflowError, RuntimeError, StopIteration, ValueError):
        return None, None
    return following, missed if missed is not None and missed + GRACE < now else None


def missed_time(
    progress: ScheduleProgress, now: datetime, *, deployed_at: datetime | None
) -> datetime | None:
    """The first due time that was missed, in UTC, by the times that pods have written down themselves.

    None where all is well, or that is unknown.
    """
    expression, _, zone = progress.times.rpartition(" ")
    as_it_ran = RegisteredSchedule(name="", cron=expression, timezone=zone, activations="")
    return due_times(as_it_ran, progress, now, deployed_at=deployed_at)[1]


def _missed(cron: Cron, progress: ScheduleProgress) -> datetime | None:
    """The due time that is next to be settled, where no pod works on it."""
    if progress.under_way is not None:
        return None if progress.held else progress.under_way
    return to_utc(cron.next(progress.settled)) if progress.settled is not None else None
