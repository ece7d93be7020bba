"""Waiting for the end of a rollout, for clients that want its outcome in the answer of a deploy.

An outcome counts only where the operator has seen the spec that was written: a status of before says what became of
another deploy.
"""

import time
from collections.abc import Callable

from tieline_api import errors
from tieline_api.conversion import projects as convert
from tieline_api.dependencies import Dependencies
from tieline_core.resources.objects import EnvironmentSpecDict, ProjectObject
from tieline_core.resources.projects import EnvironmentState


async def wait_for_rollout(
    platform: Dependencies, written: ProjectObject, environment: str, *, seconds: float
) -> ProjectObject:
    """The project once the version that was deployed to the environment has served alone or has failed.

    ``written`` is the project as the deploy has left it. After ``seconds``, or when the process ends, the project as
    it is then. One that is deleted meanwhile is returned as it was before; the wait ends with the environment, too.
    ApiError 409 when another deploy replaces the version.
    """
    item = _item(written, environment)
    version = item.get("version") if item else None
    return await _wait(
        platform, written, lambda project: rollout_ended(project, environment, version), seconds=seconds
    )


async def wait_until_suspended(
    platform: Dependencies, written: ProjectObject, environment: str, *, seconds: float
) -> ProjectObject:
    """The project once nothing of the environment runs, or after ``seconds``. ApiError 409 when it is resumed."""
    return await _wait(
        platform, written, lambda project: suspension_ended(project, environment), seconds=seconds
    )


def rollout_ended(project: ProjectObject, environment: str, version: str | None) -> bool:
    """Whether the outcome of the deploy of ``version`` is known. ApiError 409 when another one has replaced it."""
    item = _item(project, environment)
    if item is None:
        return True
    status = convert.environment_status(project, environment)
    is_replaced = item.get("version") != version or (
        convert.is_seen(project)
        and status.get("rollout")
        and status.get("desiredVersion") not in (None, version)
    )
    if is_replaced:
        raise errors.conflict(
            f'Another deploy to the environment "{environment}" replaced this one before its rollout ended'
        )
    found = convert.rollout(project, item)
    return found is None or found.state != "progressing"


def suspension_ended(project: ProjectObject, environment: str) -> bool:
    """Whether the environment has stopped. ApiError 409 when it is not to be suspended any more."""
    item = _item(project, environment)
    if item is None:
        return True
    if not item.get("suspended"):
        raise errors.conflict(f'The environment "{environment}" was deployed to before it had stopped')
    status = convert.environment_status(project, environment).get("status", EnvironmentState.DRAFT)
    return convert.is_seen(project) and status in (EnvironmentState.SUSPENDED, EnvironmentState.DRAFT)


async def _wait(
    platform: Dependencies, written: ProjectObject, ended: Callable[[ProjectObject], bool], *, seconds: float
) -> ProjectObject:
    metadata, project = written["metadata"], written
    until = time.monotonic() + seconds
    while not ended(project):
        left = until - time.monotonic()
        if left <= 0 or platform.stopping.is_set():
            break
        await platform.cluster.changes.wait(metadata["namespace"], left)
        found = platform.cluster.projects.get(metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            break
        if found["metadata"]["generation"] >= metadata["generation"]:
            project = found
    return project


def _item(project: ProjectObject, environment: str) -> EnvironmentSpecDict | None:
    """The environment in the spec; None when it is gone."""
    return next((one for one in convert.environment_items(project) if one["name"] == environment), None)
