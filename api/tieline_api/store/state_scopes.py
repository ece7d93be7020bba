"""Where state and schedules of an environment are kept."""

from tieline_api.store.documents import DocumentLimits, DocumentScope
from tieline_core.engine.state_streams import StatePlace
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.identity.names import registered_schedules_name, schedules_name, state_name
from tieline_core.identity.owner_references import owner_reference
from tieline_core.objects import ObjectView

SCHEDULES = DocumentLimits(keys=120, value_bytes=64 * 1024, total_bytes=768 * 1024, forgets=True)
REGISTERED = DocumentLimits(keys=1, value_bytes=256 * 1024, total_bytes=512 * 1024)
STATE = DocumentLimits(keys=1000, value_bytes=256 * 1024, total_bytes=768 * 1024)


def schedules_scope(
    organisation: str, project: ObjectView, environment: str, workload: str, *, account: ObjectView
) -> DocumentScope:
    """The records of an environment's schedules, by their names. ``account`` refers to its ServiceAccount."""
    return DocumentScope(
        place=StatePlace.of_schedules(organisation, environment_id(object_id(project), environment)),
        namespace=project["metadata"]["namespace"],
        name=schedules_name(workload),
        owner=account,
        bounds=SCHEDULES,
    )


def registered_schedules_scope(
    organisation: str, project: ObjectView, environment: str, workload: str, *, account: ObjectView
) -> DocumentScope:
    """Which schedules an environment's code has. ``account`` refers to its ServiceAccount."""
    return DocumentScope(
        place=StatePlace.of_registered_schedules(
            organisation, environment_id(object_id(project), environment)
        ),
        namespace=project["metadata"]["namespace"],
        name=registered_schedules_name(workload),
        owner=account,
        bounds=REGISTERED,
    )


def state_scope(
    organisation: str,
    project: ObjectView,
    environment: str,
    workload: str,
    *,
    account: ObjectView,
    activation: ObjectView | None = None,
) -> DocumentScope:
    """The state of a user's activation, or of the environment's own. ``account`` refers to its ServiceAccount."""
    identifier = object_id(activation) if activation is not None else None
    return DocumentScope(
        place=StatePlace.of_activation(
            organisation, environment_id(object_id(project), environment), identifier
        ),
        namespace=project["metadata"]["namespace"],
        name=state_name(workload, identifier),
        owner=owner_reference(activation) if activation is not None else account,
        bounds=STATE,
    )
