"""Objects that a description writes out at several places become one schema, and one class."""

import json
from collections import Counter
from collections.abc import Mapping

from tieline.cli.connector_code.names import Names, class_name
from tieline.cli.connector_code.parts import Json, parts_of, with_parts
from tieline.connectors.schemas import PREFIX

SMALLEST = 100
"""Letters of a schema from which a name is worth it."""


def shared(
    operations: dict[str, Json], schemas: Mapping[str, Json], names: Names, *, smallest: int = SMALLEST
) -> Json:
    """The schemas, with further ones for what was there several times. Changes those of the parameters in place."""
    found = _Shared(names, smallest)
    parameters = [
        (f"{class_name(key)}{class_name(one['name'])}", one)
        for key, item in operations.items()
        for one in item.get("parameters", ())
        if "schema" in one
    ]
    for name, schema in reversed([*schemas.items()]):
        found.add(name, schema)
    for _, parameter in parameters:
        found.count(parameter["schema"])
    result = {name: found.with_parts(schema, name) for name, schema in schemas.items()}
    for name, parameter in parameters:
        parameter["schema"] = found.one(parameter["schema"], name)
    return dict(sorted((result | found.further).items()))


class _Shared:
    def __init__(self, names: Names, smallest: int) -> None:
        self._names = names
        self._smallest = smallest
        self._known: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        self.further: Json = {}
        """Those that had no name."""

    def add(self, name: str, schema: Json) -> None:
        """A schema that has a name. The first of those that are equal is added last."""
        if (key := self._key(schema)) is not None:
            self._known[key] = name
        for part in parts_of(schema):
            self.count(part)

    def count(self, node: Json) -> None:
        """Counts a schema without a name, and those in it, unless they come with one that is known."""
        if (key := self._key(node)) is not None:
            self._times[key] += 1
            if self._times[key] > 1:
                return
        for part in parts_of(node):
            self.count(part)

    def one(self, node: Json, name: str) -> Json:
        """The schema, or a reference if it is there several times."""
        key = self._key(node)
        if key is None or (key not in self._known and self._times[key] < 2):
            return self.with_parts(node, name)
        if key not in self._known:
            free = self._known[key] = self._names.free(class_name(name))
            self.further[free] = self.with_parts(node, free)
        text = node.get("description")
        return {"$ref": f"{PREFIX}{self._known[key]}", **({"description": text} if text else {})}

    def with_parts(self, node: Json, name: str) -> Json:
        """The schema with those in it shared."""
        return with_parts(node, self.one, name)

    def _key(self, node: Json) -> str | None:
        """What is the same for equal objects; None for what gets no name."""
        if not node.get("properties"):
            return None
        text = json.dumps({key: value for key, value in node.items() if key != "description"}, sort_keys=True)
        return text if len(text) >= self._smallest else None
