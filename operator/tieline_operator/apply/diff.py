"""Whether an object in the cluster still is as desired.

The API server adds defaults, writes quantities in its own way and drops what is empty. So the question is
whether ``desired`` is *contained* in ``actual``. What is no longer desired is found by the hash of the
last applied manifest, which ``stamped`` puts on it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from tieline_core.kubernetes.managed_fields import Path
from tieline_core.kubernetes.quantities import amount

APPLIED_ANNOTATION = "tieline.dev/applied"
_HASH = 16

# Lists that the API server merges item by item, with the field that tells items apart. All others count
# as one value.
_MERGED_BY = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ownerReferences": "uid",
}
_QUANTITY_PARENTS = frozenset({"requests", "limits", "hard"})
_QUANTITY_FIELDS = frozenset({"sizeLimit"})


def stamped(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with an annotation that holds its own hash."""
    text = orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)
    metadata = manifest["metadata"]
    annotations = {
        **metadata.get("annotations", {}),
        APPLIED_ANNOTATION: hashlib.sha256(text).hexdigest()[:_HASH],
    }
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def differing(desired: Any, actual: Any, path: Path = ()) -> Iterator[Path]:
    """The fields of ``actual`` that are not as ``desired`` says.

    >>> [format_path(path) for path in differing({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A"}]})]
    ['env[A].value']
    """
    names = tuple(step for step in path if isinstance(step, str))
    if contained(desired, actual, path=names):
        return
    key = _merge_key(names)
    if isinstance(desired, Mapping) and isinstance(actual, Mapping):
        for name, value in desired.items():
            yield from differing(value, actual.get(name), (*path, name))
    elif key is not None and isinstance(desired, list) and isinstance(actual, Sequence):
        present = {item.get(key): item for item in actual}
        for item in desired:
            yield from differing(item, present.get(item[key]), (*path, (key, item[key])))
    else:
        yield path


def format_path(path: Path) -> str:
    """A path for people: ``spec.ports[80].name``."""
    steps = (f".{step}" if isinstance(step, str) else f"[{step[1]}]" for step in path)
    return "".join(steps).removeprefix(".")


def same_quantity(one: Any, other: Any) -> bool:
    """Whether two quantities are equal: ``0.5`` and ``500m``, ``1Gi`` and ``1024Mi``."""
    first, second = amount(one), amount(other)
    return first == second if first is not None and second is not None else str(one) == str(other)


def contained(desired: Any, actual: Any, *, path: tuple[str, ...] = ()) -> bool:
    """Whether ``actual`` contains all of ``desired``; ``path`` are the names of the fields that lead to both."""
    if desired == actual:  # the usual case, and much faster than the comparison below
        return True
    if actual is None:
        return _is_empty(desired)
    if isinstance(desired, Mapping):
        return isinstance(actual, Mapping) and all(
            contained(value, actual.get(key), path=(*path, key)) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return isinstance(actual, Sequence) and _list_contained(desired, actual, path=path)
    if path[-1:] and (path[-1] in _QUANTITY_FIELDS or (path[-2:-1] and path[-2] in _QUANTITY_PARENTS)):
        return same_quantity(desired, actual)
    return False


def _list_contained(desired: list[Any], actual: Sequence[Any], *, path: tuple[str, ...]) -> bool:
    key = _merge_key(path)
    if key is None:
        return len(desired) == len(actual) and all(
            contained(one, other, path=path) for one, other in zip(desired, actual, strict=True)
        )
    present = {item.get(key): item for item in actual}
    return all(contained(item, present.get(item[key]), path=path) for item in desired)


def _merge_key(path: tuple[str, ...]) -> str | None:
    if path[-2:] == ("spec", "ports"):
        return "port"
    if path[-2:] == ("containers", "ports"):
        return "containerPort"
    return _MERGED_BY.get(path[-1]) if path else None


def _is_empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_empty(item) for item in value.values())
    return value in (None, "", [], False, 0)
