"""What the types of answers share: ids, times, pages, errors."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

Json = dict[str, Any]


Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]


Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]


class Strict(BaseModel):
    """A type without coercion; fields that it does not know are newer than it."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class Message(Strict):
    text: str
    severity: Literal["info", "warning", "error"]
    detail: list[str]


class Page(Strict):
    total_count: int
    next: str | None = None
    prev: str | None = None


class Url(Strict):
    url: str


class Empty(Strict):
    model_config = ConfigDict(extra="forbid")


class FieldError(Strict):
    field: str
    message: str


class Error(Strict):
    """Any answer from 400 on."""

    code: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]*$")]
    message: str
    fields: list[FieldError] | None = None
    details: str | None = None


class Underscored(Strict):
    model_config = ConfigDict(strict=True, extra="allow", alias_generator=None)
