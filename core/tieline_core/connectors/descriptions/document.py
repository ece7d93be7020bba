"""A description as a tree in which references are looked up: never expanded, never fetched."""

import hashlib
import re
from typing import Any
from urllib.parse import unquote

from tieline_core.connectors.descriptions.findings import (
    DescriptionTooLarge,
    ImportFindings,
    UnreadableDescription,
    cut,
    pointer,
)
from tieline_core.objects import Json

_MAX_HOPS = 64
_NOWHERE = object()
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Base 32 as ULIDs write it (Crockford's letters), two letters at a time.
_PAIRS = [one + two for one in _CROCKFORD for two in _CROCKFORD]
_TEN_BITS = tuple(range(70, -1, -10))
# What is made of a description may be this large: published ones make less than they are themselves.
_RESULT_BYTES = 16 * 1024 * 1024
_RESULT_TIMES = 16
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_VERSION = re.compile(r"^3\.([0-2])(\.\d+)?(-.+)?$")


class Document:
    """The plain data of a description, with its findings."""

    def __init__(self, root: Json, *, digest: str, findings: ImportFindings, size: int = 0) -> None:
        """``size`` is that of the description in bytes: its result may be so many times as large."""
        self.root = root
        self.digest = digest
        self.findings = findings
        self.version = _version(root)
        self._seed = bytes.fromhex(digest)
        # The first ten letters of ids are a ULID's time: 48 bits, with two more in front that are zero.
        self._first = _letters(b"\0\0\0\0" + self._seed[:6])[6:]
        self._found: dict[str, Any] = {}
        self._mappings: dict[str, tuple[Json, str]] = {}
        self._canonical: dict[str, str] = {}
        self._limit = self._room = _RESULT_BYTES + _RESULT_TIMES * size

    @property
    def is_swagger(self) -> bool:
        """Whether it is Swagger 2.0 rather than OpenAPI 3."""
        return self.version == "2.0"

    def spend(self, size: int) -> None:
        """Counts bytes of the result, or work in their place. Raises DescriptionTooLarge beyond the limit."""
        self._room -= size
        if self._room < 0:
            raise DescriptionTooLarge(
                f"What the description says takes more than {self._limit // 1024 // 1024} MiB when it is written out "
                "for each operation: many operations share large parts by reference; split it, or share less"
            )

    def id_of(self, location: str) -> str:
        """A ULID-shaped id for a place: the same bytes have the same ids for ever.

        Its first ten letters come from the description's digest; they are no time.
        """
        random = hashlib.sha256(self._seed + location.encode("utf-8", "surrogatepass")).digest()[:10]
        return self._first + _letters(random)

    def find(self, reference: str) -> Any:
        """What a local reference points to, or None. Most references are used many times."""
        found = self._found.get(reference, _NOWHERE)
        if found is _NOWHERE:
            found = self._found[reference] = self._searched(reference)
        return found

    def canonical(self, reference: str) -> str:
        """A local reference in the one form in which places are written here (RFC 6901, not percent-encoded)."""
        if "%" not in reference and "~" not in reference:
            return reference
        known = self._canonical.get(reference)
        if known is None:
            known = self._canonical[reference] = (
                pointer(_steps(reference)) if reference.startswith("#/") else unquote(reference)
            )
        return known

    def _searched(self, reference: str) -> Any:
        if reference == "#":
            return self.root
        if not reference.startswith("#/"):
            return None
        node: Any = self.root
        for step in _steps(reference):
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and _INDEX.fullmatch(step) and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node

    def resolved(self, node: Any, location: str) -> tuple[Any, str]:
        """``node`` with references followed, and where that stands; (None, …) when one leads nowhere."""
        seen: set[str] = set()
        while isinstance(node, dict) and isinstance(node.get("$ref"), str):
            reference = node["$ref"]
            if reference in seen or len(seen) > _MAX_HOPS:
                self.findings.error("The reference leads to itself and was left out", location)
                return None, location
            seen.add(reference)
            node, location = self.find(reference), self.canonical(reference)
        return node, location

    def mapping(self, node: Any, location: str) -> tuple[Json, str]:
        """A resolved object; empty where there is none."""
        if not isinstance(node, dict):
            return {}, location
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node, location
        known = self._mappings.get(reference)
        if known is None:
            found, where = self.resolved(node, location)
            if not isinstance(found, dict):
                return {}, where
            known = self._mappings[reference] = found, where
        return known

    def part(self, *steps: str) -> tuple[Json, str]:
        """The object at a path from the top; empty where there is none."""
        node: Any = self.root
        for step in steps:
            node = node.get(step) if isinstance(node, dict) else None
        return (node if isinstance(node, dict) else {}), pointer(steps)


def _steps(reference: str) -> list[str]:
    """The steps of a local reference."""
    return [unquote(raw).replace("~1", "/").replace("~0", "~") for raw in reference[2:].split("/")]


def _letters(content: bytes) -> str:
    """Ten bytes as 16 letters."""
    number = int.from_bytes(content, "big")
    return "".join([_PAIRS[number >> bits & 1023] for bits in _TEN_BITS])


def _version(root: Json) -> str:
    swagger, openapi = root.get("swagger"), root.get("openapi")
    if swagger is not None and str(swagger) in ("2.0", "2"):
        return "2.0"
    if isinstance(openapi, float | int | str) and (found := _VERSION.match(str(openapi))):
        return f"3.{found[1]}"
    if openapi is None and swagger is None:
        raise UnreadableDescription(
            'The file is no OpenAPI description: "openapi" (or "swagger") is missing at its top'
        )
    shown = cut(str(openapi if openapi is not None else swagger), 40)
    raise UnreadableDescription(
        f"OpenAPI {shown} cannot be read: Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2 can"
    )


def text_of(node: Json, key: str, limit: int = 4096) -> str:
    """A string of an object, cut; empty where there is none."""
    value = node.get(key)
    return value[:limit] if isinstance(value, str) else ""


def list_of(node: Json, key: str) -> list[Any]:
    """A list of an object; empty where there is none."""
    value = node.get(key)
    return value if isinstance(value, list) else []


def map_of(node: Json, key: str) -> Json:
    """An object of an object; empty where there is none."""
    value = node.get(key)
    return value if isinstance(value, dict) else {}
