"""The operations: one module an area, each with its rows of the table."""

from dataclasses import replace

from tieline_api.handlers import (
    activation_variables,
    activations,
    connections,
    connector_imports,
    connector_systems,
    connectors,
    deployments,
    events,
    oauth1_initialise,
    oauth2_initialise,
    project_logs,
    projects,
    runs,
    systems,
    templates,
    traces,
    users,
    variables_schema,
)
from tieline_api.http.operation import Operation
from tieline_api.schemas import examples

_ROWS = (
    *systems.OPERATIONS,
    *oauth2_initialise.OPERATIONS,
    *oauth1_initialise.OPERATIONS,
    *connections.OPERATIONS,
    *projects.OPERATIONS,
    *deployments.OPERATIONS,
    *project_logs.OPERATIONS,
    *variables_schema.OPERATIONS,
    *templates.OPERATIONS,
    *users.OPERATIONS,
    *activations.OPERATIONS,
    *activation_variables.OPERATIONS,
    *connector_imports.OPERATIONS,
    *connectors.OPERATIONS,
    *connector_systems.OPERATIONS,
    *traces.OPERATIONS,
    *runs.OPERATIONS,
    *events.OPERATIONS,
)


def _with_examples(row: Operation) -> Operation:
    """The row with the examples of its models, where it has none of its own."""
    example = row.example
    if example is None and row.body is not None:
        example = examples.EXAMPLES.get(row.body)
    answer = row.response_example
    if answer is None and row.response is not None:
        answer = examples.EXAMPLES.get(row.response)
    return replace(row, example=example, response_example=answer)


OPERATIONS: tuple[Operation, ...] = tuple(map(_with_examples, _ROWS))
