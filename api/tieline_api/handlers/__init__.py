"""The operations: one module an area, each with its rows of the table."""

from dataclasses import replace
from typing import Any

from tieline_api.handlers import (
    access,
    activation_variables,
    activations,
    api_keys,
    approvals,
    audit,
    authorisations,
    backlog,
    catalogue,
    connect_sessions,
    connection_requests,
    connection_uses,
    connections,
    connector_imports,
    connector_systems,
    connectors,
    current_connect_session,
    deployments,
    environment_calls,
    environment_config,
    environment_work,
    environments,
    events,
    issues,
    late_schedules,
    me,
    metrics_summary,
    notifications,
    operation_search,
    organisation_schedules,
    project_logs,
    project_templates,
    projects,
    quotas,
    releases,
    runs,
    schedules,
    sleepers,
    store,
    systems,
    templates,
    traces,
    users,
    variables_schema,
    versions,
    watching,
)
from tieline_api.http.operation import Operation
from tieline_api.schemas import examples

_MODULES = (
    me,
    systems,
    catalogue,
    authorisations,
    connections,
    connection_uses,
    connection_requests,
    projects,
    project_templates,
    deployments,
    environments,
    environment_config,
    environment_work,
    environment_calls,
    releases,
    versions,
    project_logs,
    variables_schema,
    templates,
    users,
    connect_sessions,
    current_connect_session,
    activations,
    activation_variables,
    store,
    connector_imports,
    operation_search,
    connectors,
    connector_systems,
    traces,
    runs,
    issues,
    events,
    sleepers,
    approvals,
    backlog,
    metrics_summary,
    schedules,
    late_schedules,
    organisation_schedules,
    notifications,
    api_keys,
    access,
    audit,
    quotas,
    watching,
)


def _completed(row: Operation, tag: str) -> Operation:
    """The row with its tag, and with the examples of the operation or of its models."""
    own = examples.OPERATIONS.get(row.id, {})
    request = own.get("request", _of_model(row.body))
    response = own.get("response", _of_model(row.response))
    return replace(row, tag=row.tag or tag, example=request, response_example=response)


def _of_model(model: type | None) -> Any:
    return None if model is None else examples.MODELS.get(model.__name__)


OPERATIONS: tuple[Operation, ...] = tuple(
    _completed(row, module.OPERATIONS.tag) for module in _MODULES for row in module.OPERATIONS
)
