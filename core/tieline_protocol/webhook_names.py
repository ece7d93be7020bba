"""Names of webhooks, which are the paths of their URLs: ``orders``, or ``orders/{orderId}`` with a path parameter."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

MAX_NAME = 100
MAX_SEGMENTS = 8
MAX_TOOL = 1000
"""Characters of what a webhook does as a tool."""
MAX_INPUT_SCHEMA = 4096
"""Characters of the JSON Schema of what a tool takes."""
USERS = "users"
"""Stands before a user's external id in the URL of a webhook, so no later segment of a name may be this."""
USER_PARAMETER = "external_id"

NAME = re.compile(
    r"(?=.{1,100}\Z)[A-Za-z0-9][A-Za-z0-9_.-]*(?:/(?:[A-Za-z0-9][A-Za-z0-9_.-]*|\{[A-Za-z_][A-Za-z0-9_]*\})){0,7}"
)


def name_problem(name: str) -> str | None:
    """Why a webhook cannot have this name, as what follows it in a sentence; None where it can."""
    if not NAME.fullmatch(name):
        return (
            f"must be 1 to {MAX_NAME} letters, digits, '-', '_' or '.', not starting with a mark; after the first "
            f"segment, '/' leads to up to {MAX_SEGMENTS - 1} more, each of these characters or a path parameter such "
            "as '{orderId}'"
        )
    parameters = path_parameters(name)
    if len(parameters) != len(set(parameters)):
        return "has a path parameter twice; give one another name"
    if USER_PARAMETER in parameters:
        return (
            f"has the path parameter {{{USER_PARAMETER}}}, which is the user of /<name>/users/<external id>; give it "
            "another name"
        )
    if USERS in name.split("/")[1:]:
        return f"has the segment '{USERS}', which leads to a webhook's users; give it another name"
    return None


def registration_problem(name: str, taken: Collection[str]) -> str | None:
    """Why an integration with webhooks of the names ``taken`` refuses one of this name, as a sentence."""
    if problem := name_problem(name):
        return f"The webhook name {name!r} {problem}"
    if name in taken:
        return f"There are two webhooks with the name {name!r}; give one another name"
    if problem := conflict(name, taken):
        return f"The webhooks {problem}"
    return None


def other_integration_problem(name: str, taken: Collection[str], file: str) -> str | None:
    """Why a webhook of this name cannot be beside those of other integrations of a file, as a sentence."""
    if name in taken:
        return f"Two integrations of {file} have a webhook {name!r}; give one another name"
    if problem := conflict(name, taken):
        return f"The webhooks {problem}, in two integrations of {file}"
    return None


def path_parameters(name: str) -> list[str]:
    """The names of the path parameters, from left to right."""
    return [part[1:-1] for part in name.split("/") if part.startswith("{")]


def conflict(name: str, others: Iterable[str]) -> str | None:
    """Why a webhook with this name cannot be beside the others; None where it can.

    Paths that both match are fine if one name is more specific: ``orders/latest`` is, beside ``orders/{orderId}``.
    """
    first = name.split("/", 1)[0]  # never a path parameter
    for other in others:
        if other.split("/", 1)[0] != first:
            continue
        for own, is_own_user in _paths(name):
            for taken, is_user in _paths(other):
                if not _overlap(own, taken):
                    continue
                shown = f"{name!r} and {other!r} both match {_example(own, taken)}"
                if is_own_user != is_user:
                    return f"{shown}, which leads to a user of one of them; give one another name"
                if _more_specific(own, taken) == _more_specific(taken, own):
                    return f"{shown}, and none is more specific; give one another name"
    return None


def input_schema_problem(schema: Any) -> str | None:
    """Why this cannot be the JSON Schema of what a tool takes, as what follows it in a sentence; None where it can.

    Whether it is a good schema is for those who read it: nothing here follows it.
    """
    if not isinstance(schema, dict):
        return "must be a dictionary"
    try:
        text = json.dumps(schema, allow_nan=False)
        is_plain = json.loads(text) == schema
    except (TypeError, ValueError, RecursionError):
        is_plain, text = False, ""
    if not is_plain:
        return "must be plain JSON: dictionaries with texts as keys, lists, texts, numbers, booleans and None"
    if len(text) > MAX_INPUT_SCHEMA:
        return f"must be at most {MAX_INPUT_SCHEMA:,} characters of JSON"
    return None


def serving(parts: Sequence[str], names: Iterable[str]) -> str | None:
    """The webhook among ``names`` whose own path has these parts; None where none has.

    >>> serving(["orders", "latest"], ["orders/{orderId}", "orders/latest"])
    'orders/latest'
    """
    fitting = [name for name in names if _fits(name.split("/"), parts)]
    return next(iter(most_specific_first(fitting)), None)


def most_specific_first(names: Iterable[str]) -> list[str]:
    """The order in which paths are to be matched: literal segments before path parameters."""
    return sorted(names, key=lambda name: [part.startswith("{") for part in name.split("/")])


def _paths(name: str) -> Iterator[tuple[list[str], bool]]:
    """The segments of both paths of a webhook, and whether they are those for a user."""
    own = name.split("/")
    yield own, False
    yield [*own, USERS, f"{{{USER_PARAMETER}}}"], True


def _fits(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path with these parts matches a name's."""
    return len(pattern) == len(parts) and all(
        own.startswith("{") or own == part for own, part in zip(pattern, parts, strict=True)
    )


def _overlap(one: list[str], other: list[str]) -> bool:
    """Whether a path can match both."""
    return len(one) == len(other) and all(
        left == right or left.startswith("{") or right.startswith("{")
        for left, right in zip(one, other, strict=True)
    )


def _more_specific(one: list[str], other: list[str]) -> bool:
    """Whether all that matches ``one`` matches ``other``, which it overlaps."""
    return all(
        right.startswith("{") or not left.startswith("{") for left, right in zip(one, other, strict=True)
    )


def _example(one: list[str], other: list[str]) -> str:
    parts = (right if left.startswith("{") else left for left, right in zip(one, other, strict=True))
    return "/" + "/".join("x" if part.startswith("{") else part for part in parts)
