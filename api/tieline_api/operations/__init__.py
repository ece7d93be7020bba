"""The operations: one module an area, each with its rows of the table."""

from tieline_api.engine.operation import Operation
from tieline_api.operations import (
    activations,
    connections,
    connector_imports,
    connector_systems,
    connectors,
    deployments,
    oauth2_initialise,
    project_logs,
    projects,
    systems,
    templates,
    traces,
    users,
    variables_schema,
)

OPERATIONS: tuple[Operation, ...] = (
    *systems.OPERATIONS,
    *oauth2_initialise.OPERATIONS,
    *connections.OPERATIONS,
    *projects.OPERATIONS,
    *deployments.OPERATIONS,
    *project_logs.OPERATIONS,
    *variables_schema.OPERATIONS,
    *templates.OPERATIONS,
    *users.OPERATIONS,
    *activations.OPERATIONS,
    *connector_imports.OPERATIONS,
    *connectors.OPERATIONS,
    *connector_systems.OPERATIONS,
    *traces.OPERATIONS,
)
