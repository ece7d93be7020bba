"""Reading files from ConfigMaps, and remembering what was found in them.

The caches hold ConfigMaps without their contents (they would be most of the operator's memory). Contents
are read when they are needed: to digest new files, to make a version, and to check one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tieline_core.checks import check_files, named_templates
from tieline_core.connectors.webhooks import Interface, interface_of
from tieline_core.files import FilesMissing, files_digest, source_files, unpack
from tieline_core.kube.resources import CONFIG_MAPS
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.project_versions import Finding
from tieline_operator.plans import Object
from tieline_operator.world import World
from tieline_rules.files import check_sizes, check_twice
from tieline_rules.findings import first

_REMEMBERED = 4096

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a version's files hold."""

    findings: tuple[Finding, ...]
    templates: Mapping[str, tuple[str, int]]
    """The connection templates that the code names, with file and line."""
    interface: Interface
    """What the files offer to others."""


class Code:
    """Reads projects' current files and versions' files."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._digests: _Recent[tuple[tuple[object, ...], str]] = _Recent()
        self._analyses: _Recent[Analysis] = _Recent()

    def forget(self, uid: str) -> None:
        """Drops what was found in a project or a version, which is gone."""
        self._digests.drop(uid)
        self._analyses.drop(uid)

    async def digest(self, project: Project) -> str | None:
        """The digest of a project's current files, or None when it has none.

        Raises FilesMissing when they cannot be read or could never be kept.
        """
        if not project.spec.source.files and not project.spec.source.config_maps:
            return None
        uid, stamp = project.metadata.uid, (project.metadata.generation, *self._stamps(project))
        known = self._digests.get(uid)
        if known is None or known[0] != stamp:
            known = stamp, files_digest(await self.files(project))
            self._digests.put(uid, known)
        return known[1]

    async def files(self, project: Project) -> dict[str, bytes]:
        """A project's current files. Raises FilesMissing as ``digest`` does."""
        source = project.spec.source
        bodies = await self._bodies(project.namespace, (item.name for item in source.config_maps))
        return _keepable(source_files(source, bodies))

    async def analyse(self, version: ProjectVersion) -> Analysis:
        """What is in a version's files (they never change). Raises FilesMissing."""
        known = self._analyses.get(version.metadata.uid)
        if known is None:
            files = await self._version_files(version)
            found = await asyncio.to_thread(_analysed, files, version.spec.labels)
            # The description may have megabytes: who needs it asks for ``interface``.
            known = replace(found, interface=replace(found.interface, description=b""))
            self._analyses.put(version.metadata.uid, known)
        return known

    async def interface(self, version: ProjectVersion) -> Interface:
        """What a version's files offer to others, with the text of its description. Raises FilesMissing."""
        return await asyncio.to_thread(interface_of, await self._version_files(version))

    async def _version_files(self, version: ProjectVersion) -> list[tuple[str, bytes]]:
        references = version.spec.config_maps
        return unpack(references, await self._bodies(version.namespace, (item.name for item in references)))

    def _stamps(self, project: Project) -> Iterable[str]:
        """The state of each source ConfigMap: a changed one has another resourceVersion."""
        for item in project.spec.source.config_maps:
            found = self._world[CONFIG_MAPS].get(project.namespace, item.name)
            if found is None:
                raise FilesMissing(
                    f'ConfigMap "{item.name}" does not exist in namespace {project.namespace}; '
                    "create it, or remove it from spec.source.configMaps"
                )
            yield f"{found['metadata']['uid']}/{found['metadata']['resourceVersion']}"

    async def _bodies(self, namespace: str, names: Iterable[str]) -> dict[str, Object]:
        bodies: dict[str, Object] = {}
        for name in dict.fromkeys(names):
            body = await self._world.config_map(namespace, name)
            if body is not None:
                bodies[name] = body
        return bodies


def _analysed(files: list[tuple[str, bytes]], labels: Mapping[str, str]) -> Analysis:
    return Analysis(
        findings=tuple(check_files(files, labels, None)),
        templates=named_templates(files),
        interface=interface_of(files),
    )


class _Recent(Generic[T]):
    """Remembers the most recently used values."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)

    def drop(self, key: str) -> None:
        self._values.pop(key, None)


def _keepable(files: list[tuple[str, bytes]]) -> dict[str, bytes]:
    """The files as a mapping; raises FilesMissing for what no ConfigMap could keep."""
    problems = [*check_twice([path for path, _ in files]), *check_sizes(files)]
    if problems:
        raise FilesMissing(f"The files cannot be kept: {first([str(item) for item in problems], most=3)}")
    return dict(files)
