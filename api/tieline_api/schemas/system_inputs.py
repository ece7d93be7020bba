"""Inputs of systems in REST: variables that people fill in when they connect."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StringConstraints

from tieline_api.schemas.base import Rest
from tieline_core.resources.fields import ShortText, Text
from tieline_core.resources.system_inputs import (
    MAX_INPUTS,
    InputExample,
    InputHosts,
    InputName,
    InputPattern,
    InputSuffix,
)
from tieline_protocol.url_inputs import MAX_VALUE, pattern_problem


def _usable(pattern: str) -> str:
    if problem := pattern_problem(pattern):
        raise ValueError(problem)
    return pattern


class SystemInput(Rest):
    """A variable of a system's URLs that people fill in, such as the name of their shop."""

    name: InputName
    """The variable's name, as it stands in curly braces in the URLs."""
    label: ShortText | None = None
    """The name for people; the variable's name when left out."""
    description: Text | None = None
    """What to enter, for people."""
    example: InputExample | None = None
    """A value as an example, such as my-shop."""
    pattern: Annotated[InputPattern, AfterValidator(_usable)] | None = None
    """A regular expression for the whole value, from ^ to $. Default: one part of a host name (letters, digits and
    hyphens). Values never hold other characters than letters, digits, '-', '.', '_' and '~'."""
    suffix: InputSuffix | None = None
    """What follows the value in the URL, such as .myshopify.com. Forms cut a pasted address down to the value."""
    required: StrictBool | None = None
    """Whether forms require a value. Default: true, unless the system's variables have a default."""
    hosts: InputHosts | None = None
    """Hosts that a URL with this variable in its host may lead to, such as *.example.com. Required where no fixed
    domain follows the variable."""

    def to_spec(self) -> dict[str, Any]:
        """As custom resources have it."""
        found = self.model_dump(by_alias=True, exclude_none=True)
        return {key: list(dict.fromkeys(value)) if key == "hosts" else value for key, value in found.items()}


def _with_distinct_names(inputs: list[SystemInput]) -> list[SystemInput]:
    if len({one.name for one in inputs}) < len(inputs):
        raise ValueError("has two inputs of one name")
    return inputs


SystemInputs = Annotated[
    list[SystemInput], Field(max_length=MAX_INPUTS), AfterValidator(_with_distinct_names)
]


class OfferedInput(SystemInput):
    """A variable that is to be filled in."""

    value: Annotated[str, StringConstraints(max_length=MAX_VALUE)] | None = None
    """The system's default; absent where it has none."""


def shown_inputs(spec: Mapping[str, Any]) -> list[SystemInput] | None:
    """The inputs of a System's spec; None where it has none."""
    return [SystemInput.model_construct(**_fields(item)) for item in spec.get("inputs") or ()] or None


def offered_inputs(spec: Mapping[str, Any]) -> list[OfferedInput] | None:
    """The same, with the defaults."""
    defaults: Mapping[str, str] = spec.get("variables") or {}
    return [
        OfferedInput.model_construct(**_fields(item), value=defaults.get(item["name"]))
        for item in spec.get("inputs") or ()
    ] or None


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key in SystemInput.model_fields}
