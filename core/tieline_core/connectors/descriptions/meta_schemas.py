"""Descriptions checked against the meta-schema of their version, with a bound on the findings that are collected.

The validator collects every deviation before it returns the first one, 10 to 30 kB each, and makes a copy of what it
checks. A description therefore goes through it in slices of limited size: its top without the large parts, then
some entries of each large part at a time, at the place where they stand.
"""

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

from tieline_core.connectors.descriptions.document import Document
from tieline_core.connectors.descriptions.findings import cut, pointer
from tieline_core.objects import Json

MAX_DEVIATIONS = 50
"""How many deviations from the meta-schema become messages."""
_MAX_OPTIONS = 10
_MAX_NAME = 60
# A slice of this many bytes has up to some thousand deviations: 100 MB at most while it is checked.
_SLICE_BYTES = 128 * 1024
# Below it a description is checked as a whole first: nearly all have no deviation.
_WHOLE_BYTES = 4 * 1024 * 1024
_PARTS_2 = (("paths",), ("definitions",), ("parameters",), ("responses",), ("securityDefinitions",))
_COMPONENTS = (
    "schemas", "responses", "parameters", "examples", "requestBodies", "headers", "securitySchemes", "links",
    "callbacks", "pathItems", "mediaTypes",
)  # fmt: skip
_PARTS_3 = (("paths",), ("webhooks",), *(("components", name) for name in _COMPONENTS))


def check_against_meta_schema(document: Document, *, size: int) -> None:
    """Adds a warning for each of the first MAX_DEVIATIONS deviations, and says how many more were seen.

    ``size`` is that of the description as JSON, in bytes.
    """
    validator = jsonschema_rs.validator_for(_meta_schema(document.version), offline=True, mask="the value")
    try:
        if size <= _WHOLE_BYTES and validator.is_valid(document.root):
            return
        _collect(document, validator)
    except ValueError as error:
        document.findings.info(f"Not checked against the meta-schema: {cut(str(error), 200)}")


def _collect(document: Document, validator: Any) -> None:
    shown = 0
    slices = _slices(document)
    for part, small in slices:
        deviations = _deviations(validator, part, all_of_them=small)
        for deviation in deviations[: MAX_DEVIATIONS - shown]:
            steps, message = _explanation(deviation)
            text = f"Not as OpenAPI {document.version} has it: {cut(message, 300)}"
            document.findings.warning(text, pointer(steps))
        more = shown + len(deviations) - MAX_DEVIATIONS
        shown = min(shown + len(deviations), MAX_DEVIATIONS)
        if more > 0 or (shown == MAX_DEVIATIONS and next(slices, None) is not None):
            summary = f"{more} more deviations were seen" if more > 0 else "what follows was not checked"
            document.findings.warning(
                f"Only the first {MAX_DEVIATIONS} deviations from OpenAPI {document.version} are shown: {summary}"
            )
            return


def _explanation(deviation: Any) -> tuple[list[str | int], str]:
    """Where a deviation is, and what is wrong there; of alternatives, what fails deepest in the description."""
    cause = _deepest(deviation)
    steps, kind = list(cause.instance_path), cause.kind
    if kind.name == "enum":
        options = list(kind.options)
        shown = ", ".join(str(option) for option in options[:_MAX_OPTIONS])
        more = f" or {len(options) - _MAX_OPTIONS} others" if len(options) > _MAX_OPTIONS else ""
        return steps, f"the value must be one of {shown}{more}"
    if kind.name in {"additionalProperties", "unevaluatedProperties"} and steps == ["paths"]:
        without = [name for name in kind.unexpected if not name.startswith(("/", "x-"))]
        if without:
            named = ", ".join(f'"{cut(name, _MAX_NAME)}"' for name in without[:_MAX_OPTIONS])
            return steps, f"a path must begin with a slash: {named}"
    if type(kind).__name__ in {"AnyOf", "OneOfNotValid"}:
        return steps, "the value matches none of the forms that are allowed here"
    return steps, cause.message


def _deepest(deviation: Any) -> Any:
    """The cause within the alternative that was meant; the deviation itself where none or several may be meant."""
    while True:
        branches = getattr(deviation.kind, "context", None) or []
        meant = [branch for branch in branches if branch and not any(map(_rules_out, branch))]
        if not meant:
            return deviation
        deepest = max((branch[0] for branch in meant), key=lambda cause: len(cause.instance_path))
        ambiguous = len(meant) > 1 and len(deepest.instance_path) == len(deviation.instance_path)
        if ambiguous and deviation.instance_path[-1:] != ["type"]:
            return deviation
        deviation = deepest


def _rules_out(cause: Any) -> bool:
    """Whether an alternative was not meant: a reference without ``$ref``, or another value of its discriminator."""
    kind = cause.kind
    return (kind.name == "enum" and len(kind.options) == 1) or (
        kind.name == "required" and cause.message.startswith('"$ref"')
    )


def _deviations(validator: Any, part: Json, *, all_of_them: bool) -> list[Any]:
    """What is wrong in a slice; of a large one the first deviation only."""
    if all_of_them:
        return list(validator.iter_errors(part))
    try:
        validator.validate(part)
    except jsonschema_rs.ValidationError as first:
        return [first]
    return []


def _slices(document: Document) -> Iterator[tuple[Json, bool]]:
    """Parts of the description as descriptions of their own, and whether each is small enough to be collected."""
    root = document.root
    locations = _PARTS_2 if document.is_swagger else _PARTS_3
    top = dict(root)
    if isinstance(top.get("components"), dict):
        top["components"] = dict(top["components"])
    large: list[tuple[tuple[str, ...], Json]] = []
    for location in locations:
        owner = top if len(location) == 1 else top.get(location[0])
        found = owner.get(location[-1]) if isinstance(owner, dict) else None
        if isinstance(owner, dict) and isinstance(found, dict) and found:
            large.append((location, found))
            owner[location[-1]] = {}
    yield top, _size(top) <= _SLICE_BYTES
    yield from chain.from_iterable(
        _entries(_bare(document), location, entries, items=location == ("paths",))
        for location, entries in large
    )


def _entries(
    bare: Json, location: tuple[str, ...], entries: Json, *, items: bool
) -> Iterator[tuple[Json, bool]]:
    group: Json = {}
    room = _SLICE_BYTES
    for key, entry in entries.items():
        size = _size(entry)
        if group and size > room:
            yield _at(bare, location, group), True
            group, room = {}, _SLICE_BYTES
        if size <= _SLICE_BYTES:
            group[key] = entry
            room -= size
        elif items and isinstance(entry, dict):
            # A large path item: its operations one by one.
            for name, operation in entry.items():
                yield _at(bare, location, {key: {name: operation}}), _size(operation) <= _SLICE_BYTES
        else:
            yield _at(bare, location, {key: entry}), False
    if group:
        yield _at(bare, location, group), True


def _at(bare: Json, location: tuple[str, ...], group: Json) -> Json:
    if len(location) == 1:
        return {**bare, location[0]: group}
    return {**bare, location[0]: {location[1]: group}}


def _bare(document: Document) -> Json:
    """A description of the same version with nothing in it, and nothing wrong."""
    info = {"title": "", "version": ""}
    if document.is_swagger:
        return {"swagger": "2.0", "info": info, "paths": {}}
    return {"openapi": f"{document.version}.0", "info": info, "paths": {}}


def _size(value: Any) -> int:
    return len(orjson.dumps(value))


@cache
def _meta_schema(version: str) -> Json:
    """The meta-schema as openapi-spec-validator ships it (that package itself is not imported: it is slow)."""
    spec = find_spec("openapi_spec_validator")
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise RuntimeError("openapi-spec-validator is not installed: its meta-schemas are needed")
    path = Path(locations[0]) / "resources" / "schemas" / f"v{version}" / "schema.json"
    found: Json = orjson.loads(path.read_bytes())
    return found
