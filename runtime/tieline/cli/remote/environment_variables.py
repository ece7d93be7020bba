"""Environment variables of an environment as ``tieline env config`` changes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tieline.cli.exit_codes import UsageError

Variable = dict[str, Any]


def given_variables(values: Iterable[str], secrets: Iterable[str]) -> dict[str, Variable]:
    """The variables that options name, by name; raises UsageError.

    >>> given_variables(["LEVEL=debug"], ["PASSWORD=db/password"])["PASSWORD"]["valueFrom"]
    {'secretKeyRef': {'name': 'db', 'key': 'password'}}
    """
    found: dict[str, Variable] = {}
    for text in values:
        name, is_set, value = text.partition("=")
        if not name or not is_set:
            raise UsageError(f"--env takes NAME=VALUE, not {text!r}")
        found[name] = {"name": name, "value": value}
    for text in secrets:
        name, _, reference = text.partition("=")
        secret, _, key = reference.partition("/")
        if not (name and secret and key):
            raise UsageError(f"--env-secret takes NAME=SECRET/KEY, not {text!r}")
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
    return found


def changed_variables(
    environment: Mapping[str, Any], given: Mapping[str, Variable], unset: Iterable[str]
) -> list[Variable]:
    """The environment's own variables with ``given`` over them and without ``unset``; raises UsageError.

    ``environment`` is as the API answers. Variables of the project stay its own: they cannot be removed here.
    """
    there = (environment.get("config") or {}).get("env") or ()
    own = {
        item["name"]: {k: v for k, v in item.items() if k != "inherited"}
        for item in there
        if not item.get("inherited")
    }
    removed = set(unset)
    if missing := sorted(removed - own.keys()):
        raise UsageError(f"The environment has no variable of its own named {', '.join(missing)}")
    if both := sorted(removed & given.keys()):
        raise UsageError(f"{', '.join(both)} is set and removed at once")
    return [item for name, item in {**own, **given}.items() if name not in removed]
