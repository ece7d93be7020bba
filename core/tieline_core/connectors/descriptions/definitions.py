"""Definitions: the schemas that bodies are made of, and which of them refer to which."""

import re
from typing import Any

import orjson

from tieline_core.connectors.descriptions.document import Document
from tieline_core.connectors.descriptions.findings import cut, escaped
from tieline_core.objects import Json

_REFERENCE = re.compile(rb'"\$ref":"(#/[^"\\]*)"')
_MEDIA_TYPE = re.compile(r"^[\w!#$&^.+*-]{1,127}/[\w!#$&^.+*-]{1,127}(\s*;.*)?$")
_NAME = 256


class Definitions:
    """All definitions of a description, by the place where they stand."""

    def __init__(self, document: Document) -> None:
        self.document = document
        steps = ("definitions",) if document.is_swagger else ("components", "schemas")
        named, location = document.part(*steps)
        self._prefix = f"{location}/"
        self._by_place: dict[str, Json] = {}
        self._accepted: set[tuple[str, str]] = set()
        for name, schema in named.items():
            self._new(f"{location}/{escaped(name)}", name, schema)

    def body(self, schema: Any, location: str, *, media_type: str, name: str) -> Json | None:
        """How a body refers to its definition; None when it refers to nothing that is there.

        A reference to a named schema is that one; any other schema becomes a definition called ``name``.
        """
        document = self.document
        if not _MEDIA_TYPE.match(media_type):
            document.findings.warning(f'"{cut(media_type, 80)}" is no media type', location)
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            reference = document.canonical(schema["$ref"])
            target = document.find(schema["$ref"])
            if target is None:
                return None
            if reference.startswith(self._prefix) and reference not in self._by_place:
                name = reference.rpartition("/")[2]
            schema, location = target, reference
        found = self._by_place.get(location)
        if found is None:
            found = self._new(location, name, schema)
        media_type = media_type[:_NAME]
        if media_type and (location, media_type) not in self._accepted:
            self._accepted.add((location, media_type))
            found["accept"].append(media_type)
        return {"id": found["id"], "definition": {"$ref": found["url"]}}

    def all(self) -> list[Json]:
        """All definitions, with those that refer to each."""
        for user in self._by_place.values():
            referrer = {"type": "definition", "id": user["id"], "name": user["name"]}
            for target in self._targets(user["schema"]):
                target["referencedBy"].append(referrer)
        return list(self._by_place.values())

    def _targets(self, schema: Any) -> list[Json]:
        # Searching the JSON text is several times faster than walking the tree, and finds the same.
        text = orjson.dumps(schema)
        self.document.spend(len(text))
        locations = dict.fromkeys(_REFERENCE.findall(text))
        found: dict[str, Json] = {}
        for raw in locations:
            reference = self.document.canonical(raw.decode())
            if not reference.startswith(self._prefix):
                continue
            location = self._prefix + reference.removeprefix(self._prefix).partition("/")[0]
            target = self._by_place.get(location)
            if target is not None:
                found[location] = target
        return list(found.values())

    def _new(self, location: str, name: str, schema: Any) -> Json:
        text = schema.get("description") if isinstance(schema, dict) else None
        definition: Json = {
            "id": self.document.id_of(location),
            "name": name[:_NAME],
            "accept": [],
            "description": text[:4096] if isinstance(text, str) else "",
            "url": location,
            "referencedBy": [],
            "schema": schema,
        }
        self._by_place[location] = definition
        return definition
