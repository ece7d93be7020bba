"""What all bodies of the REST API have in common."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from tieline_core.ids import ULID_PATTERN

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


class Rest(BaseModel):
    """A JSON object of the API: camelCase on the wire, snake_case in Python.

    In a request ``null`` means the same as leaving a field out: what is stored stays.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )


class JsonObject(RootModel[dict[str, Any]]):
    """Any JSON object."""


class Empty(Rest):
    """An empty object."""


class Query(BaseModel):
    """Parameters of a query string; their names are as written, unknown ones are ignored."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="ignore")


class PageQuery(Query):
    """Which part of a list."""

    first: Annotated[int, Field(ge=1, le=200)] = 20
    """How many items, 1 to 200."""
    after: Cursor | None = None
    """The ``next`` of the page before."""
    before: Cursor | None = None
    """The ``prev`` of the page after."""


class SearchQuery(PageQuery):
    """Which part of a list, and what to look for."""

    search: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Text to look for, in upper or lower case."""
