"""Typed forms of objects that many others refer to: each state of one is validated once, not for each of them."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tieline_core.resources.kinds import CustomResource

M = TypeVar("M", bound=CustomResource)

_MOST = 128


class ParsedObjectCache(Generic[M]):
    """Reads objects of one kind, and remembers those that it read last.

    For objects of caches, which hand out the same object until it changes: another one of the same uid is another
    state. Who gets a model shares it, and must not change it.
    """

    def __init__(self, model: type[M], most: int = _MOST) -> None:
        self._model = model
        self._most = most
        self._kept: dict[str, tuple[Mapping[str, Any], M]] = {}

    def of(self, obj: Mapping[str, Any]) -> M:
        """The typed form; raises pydantic's ValidationError like ``read``."""
        uid = obj["metadata"]["uid"]
        found = self._kept.pop(uid, None)
        if found is None or found[0] is not obj:
            found = obj, self._model.read(obj)
        self._kept[uid] = found
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return found[1]
