"""Dynamic variables: a project's JSON Schema, and values that must follow it.

jsonschema-rs validates in microseconds and its regular expressions run in linear time, so a schema of a
user's cannot hold the service. References are looked up in the schema itself and never fetched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

MAX_ERRORS = 32
_MAX_MESSAGE = 512
_MAX_SHOWN = 60
_CACHED_SCHEMAS = 512
# A $schema that jsonschema-rs does not ship would be fetched to learn the dialect.
_DIALECTS = frozenset(
    f"{base}/schema"
    for base in (
        "json-schema.org/draft-04",
        "json-schema.org/draft-06",
        "json-schema.org/draft-07",
        "json-schema.org/draft/2019-09",
        "json-schema.org/draft/2020-12",
    )
)


class InvalidSchema(ValueError):  # noqa: N818  (says what is the case)
    """The schema is none; the message says where and why."""


@dataclass(frozen=True, kw_only=True)
class VariableError:
    """Where and how a value breaks the schema."""

    path: str
    """The variable, such as ``limits.daily`` or ``regions[0]``; empty for the whole."""
    message: str
    """What is wrong, without the values (a variable may hold what others must not read)."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Why ``schema`` cannot be used, or None when it can.

    It must follow its meta-schema (draft 2020-12 when it names none), describe an object, refer only to
    itself, and hold regular expressions of the linear kind (no look-around, no back-references).
    """
    try:
        _validator(schema)
    except InvalidSchema as error:
        return str(error)
    return None


def variable_errors(schema: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> list[VariableError]:
    """How ``variables`` break ``schema``, at most MAX_ERRORS; without a schema everything is allowed.

    Raises InvalidSchema when the schema cannot be used.
    """
    if schema is None:
        return []
    errors: list[VariableError] = []
    for error in _validator(schema).iter_errors(dict(variables)):
        errors.append(VariableError(path=_path(error.instance_path), message=_cut(error.message)))
        if len(errors) == MAX_ERRORS:
            break
    return errors


def _validator(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise InvalidSchema('the schema must be of type "object": variables are values by name')
    dialect = schema.get("$schema")
    if dialect is not None and _bare(dialect) not in _DIALECTS:
        raise InvalidSchema(
            "$schema: only JSON Schema draft 4 to 2020-12 is known; leave it out for the latter"
        )
    return _compiled(orjson.dumps(dict(schema), option=orjson.OPT_SORT_KEYS))


@lru_cache(maxsize=_CACHED_SCHEMAS)
def _compiled(text: bytes) -> Any:
    schema = orjson.loads(text)
    try:
        jsonschema_rs.meta.validate(schema)
        return jsonschema_rs.validator_for(
            schema,
            mask="the value",
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except jsonschema_rs.ValidationError as error:
        where = _path(error.instance_path)
        message = _cut(error.message)
        raise InvalidSchema(f"{where}: {message}" if where else message) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(_cut(str(error))) from error


def _bare(dialect: Any) -> str:
    return str(dialect).removeprefix("https://").removeprefix("http://").removesuffix("#")


def _path(parts: list[str | int]) -> str:
    """JavaScript's notation, which people know from the REST API's errors."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part[:_MAX_SHOWN]}" if text else part[:_MAX_SHOWN]
    return text


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"
