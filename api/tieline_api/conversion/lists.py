"""Lists of objects: one that cannot be shown does not take the others with it."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from tieline_core.identity.ids import object_id

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
O = TypeVar("O", bound=Mapping[str, Any])  # noqa: E741
_MAX_WARNINGS = 5


@dataclass(frozen=True)
class Readable(Generic[M]):
    """What of a list can be shown."""

    items: list[M]
    warnings: tuple[str, ...]
    """One sentence for each object that was left out, for the header ``Warning``; five at most."""


def readable(objects: Iterable[O], convert: Callable[[O], M]) -> Readable[M]:
    """The REST forms of ``objects``, without those whose spec does not fit their kind.

    The API server checks every write, so only objects from before a change of the definitions are left out.
    """
    items: list[M] = []
    left_out: list[str] = []
    for obj in objects:
        try:
            items.append(convert(obj))
        except (KeyError, TypeError, ValueError) as error:
            kind, identifier = obj.get("kind", "Object"), object_id(obj)
            extra = {"kind": kind, "object": obj["metadata"]["name"], "error": type(error).__name__}
            logger.warning("Cannot show an object that does not fit its definition", extra=extra)
            left_out.append(
                f"{kind} {identifier} does not fit its definition and is left out: correct its spec"
            )
    return Readable(items, tuple(left_out[:_MAX_WARNINGS]))
