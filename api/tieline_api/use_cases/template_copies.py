"""Copies of connection templates in another environment, of the same project or of another one."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import Informer, KubeError, NotFound
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import ConnectionTemplateObject, ProjectObject

logger = logging.getLogger("tieline.api")

_COPIED = ("name", "systemRef", "dynamic", "connectionRef", "authSchemeConfigIds", "exposeToCode")


class NewObjects:
    """What a request has created so far, to be taken back when it fails."""

    def __init__(self, platform: Dependencies) -> None:
        self._platform = platform
        self._undo: list[Callable[[], Awaitable[None]]] = []

    def add(self, cache: Informer[Any], obj: ObjectView) -> None:
        """Notes a new object."""
        self.on_failure(lambda: self._platform.writer.delete(cache, obj))

    def on_failure(self, undo: Callable[[], Awaitable[None]]) -> None:
        """Notes how to take back a change."""
        self._undo.append(undo)

    async def take_back(self) -> None:
        """Takes back all of it, the newest first. What cannot be taken back is logged, and stays."""
        for undo in reversed(self._undo):
            try:
                await undo()
            except NotFound:
                continue
            except (errors.ApiError, KubeError) as error:
                logger.warning("Cannot take back a part of a copy: %s", error)


@asynccontextmanager
async def new_objects(platform: Dependencies) -> AsyncIterator[NewObjects]:
    """Takes back what was created when the block ends with an error."""
    made = NewObjects(platform)
    try:
        yield made
    except (errors.ApiError, KubeError):
        await made.take_back()
        raise


async def copy_templates(
    platform: Dependencies,
    templates: Iterable[ConnectionTemplateObject],
    *,
    project: ProjectObject,
    environment: str,
    made: NewObjects,
) -> tuple[str, ...]:
    """Gives an environment templates with the same names, systems, auth schemes and static connections.

    A name that the environment has a template for already, such as one from Git, is left out. Returns a warning for
    each of them.
    """
    cluster, metadata = platform.cluster, project["metadata"]
    there = cluster.referring(
        cluster.templates, "environment", metadata["namespace"], metadata["name"], environment
    )
    left_out: list[str] = []
    taken = {template["spec"]["name"] for template in there}
    for template in templates:
        source: ObjectView = template["spec"]
        spec = {field: source[field] for field in _COPIED if field in source}
        if spec["name"] in taken:
            left_out.append(
                f'The environment "{environment}" has a template named "{spec["name"]}" already: it was kept'
            )
            continue
        taken.add(spec["name"])
        spec |= {"projectRef": {"name": metadata["name"]}, "environment": environment}
        copied = await platform.writer.create(cluster.templates, metadata["namespace"], new_id(), spec)
        made.add(cluster.templates, copied)
    return tuple(left_out)
