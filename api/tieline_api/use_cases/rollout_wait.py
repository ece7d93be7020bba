"""Waiting for the end of a rollout, for clients that want its outcome in the answer of a deploy."""

import time

from tieline_api.conversion import projects as convert
from tieline_api.dependencies import Dependencies
from tieline_api.use_cases.project_lookup import versions_of
from tieline_core.objects import Object, ObjectView


async def wait_for_rollout(
    platform: Dependencies, project: Object, environment: str, *, seconds: float
) -> Object:
    """The project once the version that was deployed to the environment serves alone or has failed.

    After ``seconds``, or when the process ends, the project as it is then. One that is deleted meanwhile is returned
    as it was before.
    """
    metadata = project["metadata"]
    until = time.monotonic() + seconds
    while _progressing(platform, project, environment):
        left = until - time.monotonic()
        if left <= 0 or platform.stopping.is_set():
            break
        await platform.world.changes.wait(metadata["namespace"], left)
        found = platform.world.projects.get(metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            break
        project = found
    return project


def _progressing(platform: Dependencies, project: ObjectView, environment: str) -> bool:
    item = next((one for one in convert.environment_items(project) if one["name"] == environment), None)
    if item is None:
        return False
    status = convert.environment_status(project, environment)
    chosen = convert.chosen_version(item, status, versions_of(platform.world, project))
    found = convert.rollout(project, item, chosen)
    return found is not None and found.state == "progressing"
