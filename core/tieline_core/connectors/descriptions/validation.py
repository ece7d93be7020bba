"""What is wrong with a description: against its meta-schema, in its references and in its patterns.

Nothing here refuses: every finding is a message, because published descriptions that fail their
meta-schema are used every day.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson

from tieline_core.connectors.descriptions.document import Document
from tieline_core.connectors.descriptions.findings import cut, pointer
from tieline_core.connectors.descriptions.meta_schemas import check_against_meta_schema
from tieline_core.connectors.descriptions.patterns import Patterns
from tieline_core.objects import Json

_REFERENCE = b'"$ref":"'
_PATTERN = b'"pattern":"'
_REST_OF_STRING = re.compile(rb'(?:[^"\\]|\\.)*"')
_NOT_SCHEMAS = frozenset({"example", "examples", "default", "enum", "const"})
_MAX_FINDINGS = 50


def check(document: Document, text: bytes) -> None:
    """Adds findings about the whole description; ``text`` is it as compact JSON."""
    check_against_meta_schema(document, size=len(text))
    references = {raw.decode("utf-8", "replace") for raw in _references(text)}
    broken = {reference for reference in references if not _leads_somewhere(document, reference)}
    patterns = Patterns()
    wrong = patterns.invalid(_decoded(raw) for raw in _patterns(text))
    if patterns.unchecked:
        document.findings.info(f"{patterns.unchecked} patterns were not checked: there are too many")
    if not broken and not wrong:
        return
    # Only now is the tree walked, to tell places; examples may hold what they like.
    for steps, key, value in islice(_suspects(document.root, broken, wrong), _MAX_FINDINGS):
        _tell(document, pointer(steps), key, value)


def _tell(document: Document, location: str, key: str, value: str) -> None:
    if key == "pattern":
        document.findings.warning(f'"{cut(value, 100)}" is no valid regular expression', location)
    elif value.startswith("#"):
        document.findings.warning(f'"{cut(value, 200)}" refers to nothing that is there', location)
    else:
        document.findings.warning(
            f'"{cut(value, 200)}" lies outside of the description: it is not fetched; join the files',
            location,
        )


def _references(text: bytes) -> set[bytes]:
    """All references of a JSON text; splitting is several times faster than a regular expression."""
    found = {piece[: piece.find(b'"')] for piece in text.split(_REFERENCE)[1:]}
    return {reference for reference in found if b"\\" not in reference}


def _patterns(text: bytes) -> list[bytes]:
    """All patterns of a JSON text, as JSON strings, in their order."""
    found = (_REST_OF_STRING.match(piece) for piece in text.split(_PATTERN)[1:])
    return list(dict.fromkeys(b'"' + match[0] for match in found if match))


def _leads_somewhere(document: Document, reference: str) -> bool:
    return document.find(reference) is not None or (
        # Anchors and $id are JSON Schema's business (3.1); ``mapping`` values of discriminators are no $ref.
        reference.startswith("#") and not reference.startswith("#/") and document.version in ("3.1", "3.2")
    )


def _decoded(raw: bytes) -> str:
    try:
        return str(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return ""


def _suspects(
    root: Json, broken: set[str], wrong: set[str]
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while waiting:
        steps, node = waiting.pop()
        if isinstance(node, list):
            waiting += [
                ((*steps, index), item) for index, item in enumerate(node) if isinstance(item, dict | list)
            ]
            continue
        if not isinstance(node, dict):
            continue
        for key, found in (("$ref", broken), ("pattern", wrong)):
            value = node.get(key)
            if isinstance(value, str) and value in found:
                yield (*steps, key), key, value
        below_properties = bool(steps) and steps[-1] in ("properties", "definitions", "schemas")
        waiting += [
            ((*steps, key), item)
            for key, item in node.items()
            if isinstance(item, dict | list) and (below_properties or key not in _NOT_SCHEMAS)
        ]
