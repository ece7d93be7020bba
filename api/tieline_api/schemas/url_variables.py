"""Values for the parts of a base URL in curly braces."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from tieline_api.schemas.base import Rest


class UrlVariable(Rest):
    """A value of a variable in the system's URLs."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Its name in curly braces."""
    value: Annotated[str, StringConstraints(max_length=2048)]
    """What stands in its place."""


def _with_distinct_names(variables: list[UrlVariable]) -> list[UrlVariable]:
    if len({one.name for one in variables}) < len(variables):
        raise ValueError("has two variables of one name")
    return variables


UrlVariables = Annotated[list[UrlVariable], Field(max_length=64), AfterValidator(_with_distinct_names)]


def shown_variables(spec: Mapping[str, Any]) -> list[UrlVariable]:
    """The variables of a spec of a System or Connection."""
    return [
        UrlVariable.model_construct(name=name, value=value)
        for name, value in (spec.get("variables") or {}).items()
    ]


def stored_variables(variables: Sequence[UrlVariable] | None) -> dict[str, str] | None:
    """The variables as a spec has them; None for those that are to stay as they are."""
    return {one.name: one.value for one in variables} if variables is not None else None
