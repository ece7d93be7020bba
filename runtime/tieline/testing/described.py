"""Answers of fakes that follow a connector's description: made of its examples, and checked against it."""

import re
from collections.abc import Mapping
from typing import Any

from tieline.connectors.answers import problems_of
from tieline.connectors.description import Body, Description, Operation
from tieline.plain_json import encode
from tieline.testing.answer import Answer
from tieline.testing.pattern_text import text_matching
from tieline_protocol.openapi_parameters import is_json

_DEEPEST = 12
_LARGEST = 10_000
"""Values and letters of an example that is made."""
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ann@example.com",
    "uri": "https://example.com",
    "url": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
}
_SHOWN = 1_000
"""Letters of a value in an error."""
_VARIABLE = re.compile(r"\{[^{}/]*\}")


class AnswerNotDescribedError(AssertionError):
    """The answer that a test gives a fake is not one that the connector's description has."""


def answer_of(
    description: Description, operation: str, status: int | None, given: Mapping[str, Any], *, check: bool
) -> Answer:
    """An answer of an operation; without ``given`` content an example. Raises AnswerNotDescribedError."""
    found = description.operation(operation)
    code = found.success if status is None else status
    content = {name: value for name, value in given.items() if value is not None}
    _, body = found.answer(code)
    if not content.keys() & {"json", "text", "body"} and code < 400 and body is not None:
        content.update(_example_content(description, found, body))
    data = content.get("json")
    if found.document and code < 400:
        content["json"] = {"data": data}
    answer = Answer.of(code, **content)
    if check and code < 400:
        value = answer.json() if answer.body and body is not None and is_json(body.media_type) else None
        value = value["data"] if found.document and isinstance(value, dict) else value
        problems = problems_of(description, found, code, value)
        if problems:
            raise AnswerNotDescribedError(
                f"{description.name} {operation} never answers so: {'; '.join(problems)}. Answer as the description "
                "says, or give check=False"
            )
    return answer


def path_pattern(operation: Operation) -> str:
    """The path for ``FakeConnection.on``: each variable stands for one segment."""
    return _VARIABLE.sub("{value}", operation.path)


def example(description: Description, body: Body) -> Any:
    """A value for a body: the description's example if it follows the schema, or one that is made with what is needed.

    If none follows the schema, the last one that was made. Raises AnswerNotDescribedError where one is too large.
    """
    value = body.example
    if value is not None and not description.schemas.findings(body.schema, value, "answer"):
        return value
    for with_examples in (True, False):
        value = _Example(description, with_examples=with_examples).made(body.schema, 0)
        if not description.schemas.findings(body.schema, value, "answer"):
            break
    return value


def _example_content(description: Description, operation: Operation, body: Body) -> dict[str, Any]:
    if is_json(body.media_type):
        value = example(description, body)
        problems = description.schemas.findings(body.schema, value, "answer")
        if problems:
            text = encode(value)
            near = f" Change {text} so that it does" if len(text) <= _SHOWN else ""
            raise AnswerNotDescribedError(
                f"No example of the answer of {description.name} {operation.id} follows its description "
                f"({'; '.join(problems)}); give one by json=.{near}"
            )
        return {"json": value}
    if isinstance(body.example, str):
        return {"text": body.example}
    return {"text": "text"} if body.media_type.startswith("text/") else {"body": b"content"}


class _Example:
    """A value that is made, of which there is not too much: descriptions may ask for billions of items."""

    def __init__(self, description: Description, *, with_examples: bool) -> None:
        self._description = description
        self._with_examples = with_examples
        self._left = _LARGEST

    def made(self, given: Any, depth: int) -> Any:
        self._spend(1)
        schema = self._description.schemas.resolved(given)
        for key in ("examples", "enum") if self._with_examples else ("enum",):
            if schema.get(key):
                return schema[key][0]
        for key in ("const", "default") if self._with_examples else ("const",):
            if key in schema:
                return schema[key]
        if depth > _DEEPEST:
            return None
        if mapping := (found := schema.get("discriminator") or {}).get("mapping"):
            value, reference = next(iter(mapping.items()))
            meant = self.made({"$ref": reference}, depth + 1)
            return {**meant, found["propertyName"]: value} if isinstance(meant, dict) else meant
        for key in ("oneOf", "anyOf"):
            if schema.get(key):
                return self.made(schema[key][0], depth + 1)
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object" or (kind is None and ("properties" in schema or "allOf" in schema)):
            return self._object(schema, depth)
        if kind == "array":
            items = schema.get("items", {})
            return [self.made(items, depth + 1) for _ in range(int(schema.get("minItems", 1)))]
        if kind == "string":
            self._spend(schema.get("minLength", 0))
        return _scalar(kind, schema)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Any:
        """What is needed, and what has an example of its own."""
        result: dict[str, Any] = {}
        for member in schema.get("allOf", ()):
            part = self.made(member, depth + 1)
            if not isinstance(part, dict):
                return part
            result |= part
        needed = schema.get("required", ())
        for name, item in schema.get("properties", {}).items():
            if name in needed or (
                self._with_examples and "examples" in self._description.schemas.resolved(item)
            ):
                result[name] = self.made(item, depth + 1)
        return result

    def _spend(self, size: float) -> None:
        self._left -= int(size)
        if self._left < 0:
            raise AnswerNotDescribedError(
                f"An example that follows the description of {self._description.name} would have more than "
                f"{_LARGEST:,} values and letters; give an answer by json="
            )


def _scalar(kind: Any, schema: Mapping[str, Any]) -> Any:
    if kind == "string":
        shortest = int(schema.get("minLength", 0))
        longest = int(schema["maxLength"]) if "maxLength" in schema else None
        if "pattern" in schema:
            found = text_matching(schema["pattern"], shortest=shortest, longest=longest)
            if found is not None:
                return found.ljust(shortest, "x")
        text: str = _FORMATS.get(schema.get("format", ""), "text")
        return text.ljust(shortest, "x")[:longest]
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else None)
        value = low if low is not None else min(1, schema.get("maximum", 1))
        return int(value) if kind == "integer" else value
    return True if kind == "boolean" else None if kind == "null" else {}
