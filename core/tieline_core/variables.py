"""Dynamic variables: a project's JSON Schema, and values that must follow it; see tieline_rules.variables."""

from tieline_rules.variables import (
    MAX_ERRORS,
    InvalidSchema,
    VariableError,
    schema_problem,
    variable_errors,
)

__all__ = ["MAX_ERRORS", "InvalidSchema", "VariableError", "schema_problem", "variable_errors"]
