"""Commands whose parameters can be groups of options: dataclasses with an option a field.

    @dataclass(frozen=True, kw_only=True)
    class InProject:
        project: ProjectOption = None

    @commands.command("list")
    def list_versions(*, where: InProject) -> None: ...

Typer sees the group's fields in the group's place; the command gets the group.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, TypeVar

import typer

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A Typer application whose commands may have groups of options."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[_Function], _Function]:
        """As Typer's, which says what the arguments are."""
        register = super().command(*args, **kwargs)

        def add(function: _Function) -> _Function:
            register(expanded(function))
            return function

        return add


def expanded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a parameter for each option of its groups."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    if not groups:
        return function
    parameters = list(_expanded(signature))

    @wraps(function)
    def command(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in _options(group)})
        return function(**given)

    # Typer reads both, and neither of the function that is wrapped.
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return command


def _expanded(signature: inspect.Signature) -> Iterator[inspect.Parameter]:
    for parameter in signature.parameters.values():
        if is_dataclass(parameter.annotation):
            yield from _options(parameter.annotation)
        else:
            yield parameter


def _options(group: Any) -> Iterator[inspect.Parameter]:
    return iter(inspect.signature(group, eval_str=True).parameters.values())
