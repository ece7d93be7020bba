"""The operations: one module an area, each with its rows of the table."""

from dataclasses import replace

from tieline_api.handlers import (
    access,
    activation_variables,
    activations,
    api_keys,
    authorisations,
    backlog,
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
    environments,
    events,
    late_schedules,
    me,
    metrics_summary,
    notifications,
    operation_search,
    project_logs,
    projects,
    runs,
    schedules,
    store,
    systems,
    templates,
    traces,
    users,
    variables_schema,
    versions,
)
from tieline_api.http.operation import Operation
from tieline_api.schemas import examples

_ROWS = (
    ("Callers", me.OPERATIONS),
    ("Systems", systems.OPERATIONS),
    ("Systems", authorisations.OPERATIONS),
    ("Connections", connections.OPERATIONS),
    ("Connections", connection_uses.OPERATIONS),
    ("Connections", connection_requests.OPERATIONS),
    ("Projects", projects.OPERATIONS),
    ("Projects", deployments.OPERATIONS),
    ("Environments", environments.OPERATIONS),
    ("Environments", environment_config.OPERATIONS),
    ("Environments", environment_calls.OPERATIONS),
    ("Versions", versions.OPERATIONS),
    ("Projects", project_logs.OPERATIONS),
    ("Projects", variables_schema.OPERATIONS),
    ("Systems in an environment", templates.OPERATIONS),
    ("Users", users.OPERATIONS),
    ("Connect sessions", connect_sessions.OPERATIONS),
    ("Connect sessions", current_connect_session.OPERATIONS),
    ("Activations", activations.OPERATIONS),
    ("Activations", activation_variables.OPERATIONS),
    ("State of activations", store.OPERATIONS),
    ("Connectors", connector_imports.OPERATIONS),
    ("Connectors", operation_search.OPERATIONS),
    ("Connectors", connectors.OPERATIONS),
    ("Connectors", connector_systems.OPERATIONS),
    ("Traces", traces.OPERATIONS),
    ("Runs and events", runs.OPERATIONS),
    ("Runs and events", events.OPERATIONS),
    ("Runs and events", backlog.OPERATIONS),
    ("Runs and events", metrics_summary.OPERATIONS),
    ("Schedules", schedules.OPERATIONS),
    ("Schedules", late_schedules.OPERATIONS),
    ("Notifications", notifications.OPERATIONS),
    ("Access and changes", api_keys.OPERATIONS),
    ("Access and changes", access.OPERATIONS),
)
"""The rows of each module, and the tag of those that have none of their own."""


def _completed(row: Operation, tag: str) -> Operation:
    """The row with its tag, and with the examples of its models, where it has none of its own."""
    example = row.example
    if example is None and row.body is not None:
        example = examples.EXAMPLES.get(row.body)
    answer = row.response_example
    if answer is None and row.response is not None:
        answer = examples.EXAMPLES.get(row.response)
    return replace(row, tag=row.tag or tag, example=example, response_example=answer)


OPERATIONS: tuple[Operation, ...] = tuple(_completed(row, tag) for tag, rows in _ROWS for row in rows)
