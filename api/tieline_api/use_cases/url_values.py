"""Values of variables in URLs that clients send: those of a system's inputs are checked before they are stored.

They are checked again at each use (``tieline_protocol.url_inputs``): ``kubectl`` writes what it likes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.auth.end_users import EndUserScope
from tieline_api.schemas.url_variables import UrlVariable
from tieline_core.resources.objects import SystemObject
from tieline_protocol.url_inputs import url_inputs


def check_values(
    given: Sequence[UrlVariable], system: SystemObject | None, *, live: Mapping[str, str], field: str
) -> None:
    """ApiError 422 at the value of an input that cannot be used, unless it is stored already."""
    inputs = url_inputs(_spec(system))
    for index, one in enumerate(given):
        about = inputs.get(one.name)
        if about is None or live.get(one.name) == one.value:
            continue
        if problem := about.value_problem(one.value):
            raise errors.invalid(f"{field}[{index}].value", problem)


def own_values(
    given: Sequence[UrlVariable],
    scope: EndUserScope,
    system: SystemObject | None,
    *,
    live: Mapping[str, str],
    field: str,
) -> dict[str, str]:
    """The variables of an end user's connection, with what the application has fixed for the session.

    ApiError 422 at a variable that the user may not set. What the user may not set stays as it is.
    """
    fixed = fixed_values(scope, system)
    for index, one in enumerate(given):
        if one.value == {**live, **fixed}.get(one.name):
            continue
        if one.name in fixed:
            raise errors.invalid(f"{field}[{index}]", "is set by the application: leave it out")
        if not may_set(scope, system, one.name):
            raise errors.invalid(f"{field}[{index}]", "is not for end users to set: leave it out")
    check_values(given, system, live=live, field=field)
    kept = {name: value for name, value in live.items() if not may_set(scope, system, name)}
    return {**kept, **{one.name: one.value for one in given}, **fixed}


def fixed_values(scope: EndUserScope, system: SystemObject | None) -> dict[str, str]:
    """What the application has fixed for a session of the inputs of a system."""
    names = url_inputs(_spec(system)).keys()
    return {name: value for name, value in scope.variables if name in names}


def may_set(scope: EndUserScope, system: SystemObject | None, name: str) -> bool:
    """Whether an end user may set a variable: an input of the system that the session asks for, and does not fix."""
    if name not in url_inputs(_spec(system)) or name in dict(scope.variables):
        return False
    return scope.inputs is None or name in scope.inputs


def as_variables(values: Mapping[str, str]) -> list[UrlVariable]:
    """Values as requests have them."""
    return [UrlVariable(name=name, value=value) for name, value in values.items()]


def _spec(system: SystemObject | None) -> Mapping[str, Any]:
    return system["spec"] if system else {}
