"""Parsed forms of objects that many others refer to: each state of one is validated once, not for each of them."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

from tieline_core.resources import Connection, ConnectionTemplate, Project, ProjectVersion, System
from tieline_core.resources.kinds import CustomResource

M = TypeVar("M", bound=CustomResource)


class ParsedObjectCache(Generic[M]):
    """Parses objects of one kind, and remembers those that it parsed last.

    For objects of caches, which hand out the same object until it changes: another one of the same uid is another
    state. Callers share a model and must not change it.
    """

    def __init__(self, model: type[M], limit: int = 128) -> None:
        self._model = model
        self._parsed: LRUCache[str, tuple[Mapping[str, Any], M]] = LRUCache(limit)

    def of(self, obj: Mapping[str, Any]) -> M:
        """The parsed form; raises pydantic's ValidationError like ``read``."""
        uid = obj["metadata"]["uid"]
        found = self._parsed.get(uid)
        if found is None or found[0] is not obj:
            found = self._parsed[uid] = obj, self._model.read(obj)
        return found[1]


# All connections of a system read its schemes, for each of their credentials.
SYSTEM, CONNECTION = ParsedObjectCache(System), ParsedObjectCache(Connection)
# All versions, templates and activations of a project read it, and all activations the templates.
PROJECT, TEMPLATE = ParsedObjectCache(Project), ParsedObjectCache(ConnectionTemplate)
# A project reads all its versions, and each of them the others.
VERSION = ParsedObjectCache(ProjectVersion, limit=512)
