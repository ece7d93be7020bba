"""Dynamic variables: a project's JSON Schema, and values that must follow it.

Regular expressions run in linear time, and references are looked up in the schema itself and never fetched. What a
schema may ask for is limited (``schema_limits``), but within these limits one can still take seconds and hundreds of
MiB: on behalf of others it is checked in a limited process (``tieline_core.evaluation.variables_checker``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

from tieline_protocol.schema_findings import TYPES, cut, findings_text, path_text
from tieline_protocol.schema_limits import MAX_BYTES, excess

MAX_ERRORS = 32
# A compiled schema takes about 36 times its text, one with large patterns much more.
_CACHED_SCHEMAS = 64
_CACHED_BYTES = 16 * 1024
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


_ALTERNATIVES = {
    "AnyOf": "the value matches none of the alternatives that the schema allows (anyOf)",
    "OneOfNotValid": "the value matches none of the alternatives that the schema allows (oneOf)",
    "OneOfMultipleValid": "the value matches more than one of the alternatives; exactly one is allowed (oneOf)",
}


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
    itself, hold regular expressions of the linear kind (no look-around, no back-references), and stay within
    the limits of ``schema_limits``.
    """
    try:
        _validator(text_of(schema))
    except InvalidSchema as error:
        return str(error)
    return None


def variable_errors(schema: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> list[VariableError]:
    """How ``variables`` break ``schema``, at most MAX_ERRORS; without a schema everything is allowed.

    Raises InvalidSchema when the schema cannot be used.
    """
    return [] if schema is None else errors_in(text_of(schema), variables)


def errors_in(text: bytes, variables: Mapping[str, Any]) -> list[VariableError]:
    """The same for a schema as ``text_of`` writes it."""
    errors: list[VariableError] = []
    for error in _validator(text).iter_errors(dict(variables)):
        errors.append(VariableError(path=path_text(error.instance_path), message=_message(error)))
        if len(errors) == MAX_ERRORS:
            break
    return errors


def is_valid_for(text: bytes, variables: Mapping[str, Any]) -> bool:
    """Whether ``variables`` follow a schema as ``text_of`` writes it. Raises InvalidSchema when it cannot be used.

    Stops at the first error, where ``errors_in`` lets the library make all of them, each with a copy of its value.
    """
    return bool(_validator(text).is_valid(dict(variables)))


def _message(error: jsonschema_rs.ValidationError) -> str:
    return cut(_ALTERNATIVES.get(type(error.kind).__name__, error.message))


def text_of(schema: Mapping[str, Any]) -> bytes:
    """The schema as JSON, the same for schemas that say the same. Raises InvalidSchema when there is too much of it."""
    try:
        text = orjson.dumps(dict(schema), option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # nested too deep, or a number of more than 64 bits
        raise InvalidSchema(f"it cannot be written as JSON: {error}") from error
    if len(text) > MAX_BYTES:
        raise InvalidSchema(f"it has {len(text):,} bytes; at most {MAX_BYTES:,} are allowed")
    return text


def _validator(text: bytes) -> Any:
    return (_small if len(text) <= _CACHED_BYTES else _last)(text)


def _compiled(text: bytes) -> Any:
    schema = orjson.loads(text)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        if isinstance(kind, str) and kind not in TYPES:
            raise InvalidSchema(f'type: "{cut(kind)}" is no type of JSON Schema; it must be "object"')
        raise InvalidSchema('the schema must be of type "object": variables are values by name')
    dialect = schema.get("$schema")
    if dialect is not None and _bare(dialect) not in _DIALECTS:
        raise InvalidSchema(
            "$schema: only JSON Schema draft 4 to 2020-12 is known; leave it out for the latter"
        )
    too_much = excess(schema)
    if too_much:
        raise InvalidSchema(too_much)
    try:
        return _build(schema)
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(findings_text(schema, error, _build)) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(cut(str(error))) from error


def _build(schema: dict[str, Any]) -> Any:
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.validator_for(
        schema, mask="the value", offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


_small = lru_cache(maxsize=_CACHED_SCHEMAS)(_compiled)
_last = lru_cache(maxsize=1)(_compiled)


def _bare(dialect: Any) -> str:
    return str(dialect).removeprefix("https://").removeprefix("http://").removesuffix("#")
