"""Dynamic variables: a project's JSON Schema, and values that must follow it; see tieline_rules.variables."""

from collections.abc import Mapping
from typing import Any

from tieline_rules.variables import (
    MAX_ERRORS,
    InvalidSchema,
    VariableError,
    schema_problem,
    variable_errors,
)

__all__ = [
    "MAX_ERRORS",
    "InvalidSchema",
    "VariableError",
    "fit",
    "in_effect",
    "schema_problem",
    "variable_errors",
]


def fit(schema: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> bool:
    """Whether ``variables`` follow ``schema``; none do while it cannot be used."""
    try:
        return not variable_errors(schema, variables)
    except InvalidSchema:
        return False


def in_effect(schema: Mapping[str, Any] | None, activation: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that code runs with for an Activation (the object, as Kubernetes has it).

    Those of its spec while they follow the schema, and else the last ones that did, which the operator keeps
    in its status. So neither a change of the schema nor one of the values breaks what runs.
    """
    variables = activation["spec"].get("variables") or {}
    if fit(schema, variables):
        return dict(variables)
    return dict((activation.get("status") or {}).get("lastValidVariables") or {})
