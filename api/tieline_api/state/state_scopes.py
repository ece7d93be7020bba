"""Where state and schedules of an environment are kept."""

from tieline_api.state.documents import DocumentLimits, DocumentScope
from tieline_core.engine.state_streams import StatePlace

SCHEDULES = DocumentLimits(keys=120, value_bytes=64 * 1024, forgets=True)
REGISTERED = DocumentLimits(keys=1, value_bytes=256 * 1024)
STATE = DocumentLimits(keys=1000, value_bytes=256 * 1024)


def schedules_scope(organisation: str, environment: str) -> DocumentScope:
    """The records of an environment's schedules, by their names."""
    return DocumentScope(place=StatePlace.of_schedules(organisation, environment), bounds=SCHEDULES)


def registered_schedules_scope(organisation: str, environment: str) -> DocumentScope:
    """Which schedules an environment's code has."""
    return DocumentScope(
        place=StatePlace.of_registered_schedules(organisation, environment), bounds=REGISTERED
    )


def state_scope(organisation: str, environment: str, activation: str | None = None) -> DocumentScope:
    """The state of a user's activation, or of the environment's own, by their ids."""
    return DocumentScope(place=StatePlace.of_activation(organisation, environment, activation), bounds=STATE)
