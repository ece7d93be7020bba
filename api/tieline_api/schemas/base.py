"""What all bodies of the REST API have in common."""

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tieline_api.cursors import Window
from tieline_core.documented_model import DocumentedModel
from tieline_core.identity.ids import ULID_PATTERN

ZERO_ULID = "0" * 26
"""What clients send for an id that they do not have: their types have no absent ULID."""


def is_no_id(value: object) -> bool:
    """Whether a client says with ``value`` that it has no id: null, empty, or the ULID of zeros."""
    return value is None or value in ("", ZERO_ULID)


def _is_null(value: object) -> bool:
    return value is None


def _replacing(is_absent: Callable[[object], bool], instead: Callable[[], object]) -> BeforeValidator:
    """Reads what stands for an absent value as the value that is meant."""
    return BeforeValidator(lambda value: instead() if is_absent(value) else value)


MaybeId = _replacing(is_no_id, lambda: None)
"""For an optional id: the ULID of zeros means none."""
IdOrEmpty = _replacing(is_no_id, str)
"""For an id whose absence is the empty string."""
NullableList = _replacing(_is_null, list)
"""For a required list: null means empty."""
NullableObject = _replacing(_is_null, dict)
"""For a required object: null means empty."""
MADE_UP = "made-up"
"""Marks an id that is made up where a client has none."""
_ANNOTATIONS = ("title", "description", "default", "examples", "readOnly", "writeOnly")

# Ids arrive in either case and leave in upper case.
UlidIn = Annotated[
    str,
    StringConstraints(pattern=f"(?i){ULID_PATTERN}", to_upper=True),
    WithJsonSchema({"type": "string", "pattern": ULID_PATTERN, "examples": ["01JD3Y7M5RZX9KQW8T2V4N6P0A"]}),
]
UlidOut = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": ULID_PATTERN, "examples": ["01JD3Y7M5RZX9KQW8T2V4N6P0A"]}),
]
TimeOut = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T10:00:00Z"]})
]
Cursor = Annotated[str, StringConstraints(max_length=512)]


class Rest(DocumentedModel):
    """A JSON object of the API: camelCase on the wire, snake_case in Python.

    In a request ``null`` means the same as leaving a field out: a new object gets the default (an empty list, an
    empty object), and what is stored stays.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return without_nulls(cls, data)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema of a request says where null, and the empty string for an id, are accepted."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        if handler.mode == "validation":
            properties = handler.resolve_ref_schema(schema).get("properties", {})
            for name, info in cls.model_fields.items():
                shown = info.alias or name
                if shown in properties:
                    properties[shown] = _accepting(properties[shown], _also_accepted(cls, name))
        return schema


def _also_accepted(model: type[BaseModel], name: str) -> list[JsonSchemaValue]:
    """Schemas of what a field takes beyond its type."""
    metadata = model.model_fields[name].metadata
    ids = MaybeId in metadata or IdOrEmpty in metadata or MADE_UP in metadata
    nullable = ids or NullableList in metadata or NullableObject in metadata or name in _defaulted(model)
    empty: list[JsonSchemaValue] = [{"type": "string", "maxLength": 0}] if ids else []
    return [*empty, *([{"type": "null"}] if nullable else [])]


def _accepting(schema: JsonSchemaValue, more: list[JsonSchemaValue]) -> JsonSchemaValue:
    """``schema``, or one of ``more``; its title, description and default stay where they are read."""
    bare = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    options = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    missing = [one for one in more if one not in options]
    if not missing:
        return schema
    kept = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    return {**kept, "anyOf": [*options, *missing]}


def without_nulls(model: type[BaseModel], data: Any) -> Any:
    """``data`` without nulls in fields of ``model`` that have a default and take no null."""
    if not isinstance(data, dict) or not any(value is None for value in data.values()):
        return data
    defaulted = _defaulted(model)
    return {name: value for name, value in data.items() if value is not None or name not in defaulted}


@cache
def _defaulted(model: type[BaseModel]) -> frozenset[str]:
    """The names, on the wire and in Python, of the fields that have a default and take no null."""
    fields = {
        name: info
        for name, info in model.model_fields.items()
        if not info.is_required() and info.annotation is not Any and NoneType not in get_args(info.annotation)
    }
    return frozenset(fields) | {info.alias for info in fields.values() if info.alias}


class JsonObject(RootModel[dict[str, Any]]):
    """Any JSON object."""


class Empty(Rest):
    """An empty object."""


class Page(Rest):
    """A part of a list."""

    total_count: int
    """How many there are in all."""
    items: list[Any]
    """The items, of the list's own type."""
    next: str | None = None
    """Pass it as ``after`` for the next page; absent on the last."""
    prev: str | None = None
    """Pass it as ``before`` for the page before; absent on the first."""


class Query(DocumentedModel):
    """Parameters of a query string; their names are as written, unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore")


class PageQuery(Query):
    """Which part of a list."""

    first: Annotated[int, Field(ge=1, le=200)] = 20
    """How many items, 1 to 200."""
    after: Cursor | None = None
    """The ``next`` of the page before."""
    before: Cursor | None = None
    """The ``prev`` of the page after."""

    @property
    def window(self) -> Window:
        """The part, for the functions that cut lists."""
        return Window(first=self.first, after=self.after, before=self.before)


class SearchQuery(PageQuery):
    """Which part of a list, and what to look for."""

    search: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Text to look for, in upper or lower case."""
