"""Schedules in REST."""

from typing import Annotated

from pydantic import Field, RootModel, StrictBool, StringConstraints

from tieline_api.schemas.base import MaybeId, Page, Query, Rest, SearchQuery, TimeOut, UlidIn, UlidOut
from tieline_protocol.run_records import RunStatus


class Scheduler(Rest):
    """A schedule of the code that serves in an environment."""

    id: UlidOut
    """The id; it stays the same for as long as the environment and the schedule's name."""
    name: str
    """The name that the code gives it."""
    schedule: str
    """The cron expression: five fields, or six with seconds before them."""
    url: str
    """The path of the operation that runs it now."""
    environment_id: Annotated[UlidOut, Field(alias="environment_id")]
    """The environment."""
    timezone: str
    """The time zone of the cron expression, a name of the IANA database."""
    activations: str
    """``static`` runs once, ``users`` runs for each user who is activated."""
    paused: bool
    """Whether its due times are skipped."""
    next_run: TimeOut | None = None
    """When it is due next; absent while it is paused, or its environment suspended."""
    last_run: TimeOut | None = None
    """When its newest run began. Where the history does not have that run any more, it is when the run was due."""
    last_run_id: UlidOut | None = None
    """The newest run; absent where the history does not have it."""
    last_run_status: RunStatus | None = None
    """What became of that run."""
    missed: TimeOut | None = None
    """The due time that passed more than five minutes ago and was not run. Absent where all is well."""


class SchedulerList(RootModel[list[Scheduler]]):
    """All schedules of an environment, by name."""


class SchedulersQuery(SearchQuery):
    """Which schedules. ``search`` finds names of schedules, projects and environments."""

    project_id: Annotated[UlidIn | None, MaybeId] = None
    """Only those of this project."""
    project_env: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only those in environments with this name."""


class OrganisationScheduler(Scheduler):
    """A schedule with its project and environment."""

    project_id: UlidOut
    """The project."""
    project_name: str
    """Its name."""
    environment_name: str
    """The environment's name."""


class OrganisationSchedulerPage(Page):
    """A part of the schedules of an organisation."""

    items: list[OrganisationScheduler]
    """The schedules, next due first, paused and suspended ones last."""


class LateQuery(Query):
    """How many late schedules."""

    first: Annotated[int, Field(ge=1, le=200)] = 50
    """How many, 1 to 200."""


class LateScheduler(Rest):
    """A schedule whose due time passed more than five minutes ago without a run."""

    id: UlidOut
    """The schedule's id."""
    name: str
    """The name that the code gives it."""
    project_id: UlidOut
    """The project."""
    project_name: str
    """Its name."""
    environment_id: UlidOut
    """The environment."""
    environment_name: str
    """Its name."""
    missed: TimeOut
    """The due time that was not run."""


class LateSchedulerList(Rest):
    """Late schedules of an organisation."""

    items: list[LateScheduler]
    """The schedules, the one that waits longest first."""
    total_count: int
    """How many there are."""


class RunNow(Rest):
    """For whom to run a schedule now."""

    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """The user to run it for, by id or external id. Without one it runs for all users, or once where it is static."""


class SchedulerUpdate(Rest):
    """What can be changed of a schedule."""

    paused: StrictBool
    """Whether its due times are skipped. What is skipped is not made up for later."""
