"""Reads how far schedules are from the engine, for environments that have notifications about them."""

from typing import Any

from tieline_core.engine.state_streams import StatePlace
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.notifications.place_reader import PlaceReader, WantedValues
from tieline_operator.reconcilers.notification.schedules import MAX_SCHEDULES

_WANTED = WantedValues(
    events=frozenset({NotificationEvent.SCHEDULE_MISSED}),
    place=StatePlace.of_schedules,
    limit=MAX_SCHEDULES,
    problem="Records of schedules cannot be read",
)


class ScheduleRecords(PlaceReader):
    """The ``Schedules`` of the leader."""

    def __init__(self, listers: Listers, **options: Any) -> None:
        """``options`` as of PlaceReader."""
        super().__init__(listers, _WANTED, **options)
