"""What a tool is. Nothing of the SDK is here: it is imported with the first request."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from tieline_api.auth.permissions import Permission
from tieline_api.http.operation import AnyCall
from tieline_core.documented_model import DocumentedModel

MAX_TEXT = 64 * 1024
"""Bytes of a result: what is longer would fill an agent's context."""


class Arguments(DocumentedModel):
    """What a tool is given: camelCase, with a description of each field, and nothing else."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a call."""

    content: dict[str, Any]
    """JSON, of at most ``MAX_TEXT`` bytes."""
    failed: bool = False
    """Whether it did not do what it was to do: the agent sees that, and may try another way."""
    noted: tuple[tuple[str, Any], ...] = ()
    """What the log says of it beside the tool."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool of the endpoint."""

    name: str
    description: str
    """For models: what it does, and when to use it."""
    arguments: type[Arguments]
    permissions: tuple[Permission, ...]
    """What callers other than end users need; those reach what is theirs."""
    run: Callable[[AnyCall, Any], Awaitable[Result]]
    reads: bool = True
    """Whether it changes nothing anywhere."""
    about: tuple[str, str] = ("", "")
    """Of one that does not only read: the argument with an id, and the kind of what it is of."""
