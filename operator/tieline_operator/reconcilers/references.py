"""References to other objects: the outcomes for those that do not exist, or cannot be used."""

from collections.abc import Iterator

from tieline_core.identity.ids import environment_id
from tieline_core.resources import Project
from tieline_operator.apply.conditions import find_condition, has_failed
from tieline_operator.apply.plan import Object, Outcome, failed


def not_found(reason: str, name: str, namespace: str, this: str, other: str) -> Outcome:
    """The outcome for a reference that never changes, to an object that does not exist.

    ``reason`` is the kind of that object with ``NotFound``. ``this`` is the object that refers to it, which can be
    replaced by one with (or for) an ``other``.
    """
    kind = reason.removesuffix("NotFound")
    return failed(
        reason,
        f'{kind} "{name}" does not exist in namespace {namespace}; '
        f"create it, or delete this {this} and create one {other}",
    )


def not_ready(connection: Object) -> Iterator[Outcome]:
    """The outcome for a reference to a connection that cannot be used."""
    condition = find_condition(connection)
    if has_failed(connection) and condition:
        name, message = connection["metadata"]["name"], condition["message"][:1024]
        yield failed("ConnectionNotReady", f'Connection "{name}" cannot be used: {message}')


def environment_status(project: Project | None, environment: str) -> dict[str, str]:
    """The part of a status with the id of an environment; empty where the project does not have it."""
    environments = project.spec.effective_environments() if project else ()
    if project is None or all(item.name != environment for item in environments):
        return {}
    return {"environmentId": environment_id(project.id, environment)}
