"""Every operation, on things that are there: what others learn of them, and how answers are versioned."""

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client
from tests.integration.api.contract.all_resources import MARK, Everything, make_everything
from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import parameters
from tieline_api.http.operation import Operation

pytestmark = pytest.mark.cluster

READS = [
    one
    for one in OPERATIONS
    if one.method == "GET" and not one.streams and one.id != "getCurrentConnectSession"
]  # of end users
VERSIONED = [one for one in READS if one.conditional]
CHANGES = [one for one in OPERATIONS if one.conditional and one.method in ("PUT", "PATCH")]
NOT_THERE = {"getTrace": 404, "proxyGet": 502}
"""No trace was sent, and the system's host does not exist."""


def _name(operation: Operation) -> str:
    return operation.id


@pytest.fixture(scope="module")
def everything(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> Everything:
    return make_everything(client, engine, kubectl, org)


@pytest.fixture(scope="module")
def before(client: Client, everything: Everything) -> dict[str, bytes]:
    """What the owner reads before others try."""
    return {one.id: client.at(everything.path(one)).raw for one in VERSIONED}


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if not one.streams], ids=_name)
def test_ids_of_another_organisation_open_nothing(
    client: Client, neighbour: Client, everything: Everything, before: dict[str, bytes], operation: Operation
) -> None:
    """With one's own token and organisation, and the ids of somebody else's things, in path and body."""
    query = "?environment=production" if operation.id == "suspendProject" else ""
    path = everything.path(operation, organisation_id=neighbour.organisation) + query
    answer = neighbour.at(path, method=operation.method, body=everything.body(operation))
    if set(parameters(operation)) - {"organisation_id", "entry"} and operation.id != "importConnector":
        assert answer.status == 404, answer.raw
    elif operation.example is not None and operation.id not in (
        "createSystem",
        "createSystemFromCatalogue",
        "createProject",
        "createUser",
        "createNotificationChannel",
        "createApiKey",
        "createRoleBinding",
    ):
        assert answer.status in (404, 415, 422), answer.raw
    assert MARK not in answer.raw.decode()
    for secret in ("s3cr3t", client.organisation):
        assert secret not in answer.raw.decode()


def test_and_nothing_of_it_was_changed(
    client: Client, everything: Everything, before: dict[str, bytes]
) -> None:
    assert {one.id: client.at(everything.path(one)).raw for one in VERSIONED} == before


@pytest.mark.parametrize("operation", READS, ids=_name)
def test_every_read_of_what_is_there_succeeds(
    client: Client, everything: Everything, operation: Operation
) -> None:
    answer = client.at(everything.path(operation))
    assert answer.status == NOT_THERE.get(operation.id, 200), answer.raw


@pytest.mark.parametrize("operation", VERSIONED, ids=_name)
def test_an_answer_about_one_thing_has_an_etag_that_saves_the_next(
    client: Client, everything: Everything, operation: Operation
) -> None:
    path = everything.path(operation)
    etag = client.at(path).headers["ETag"]
    again = client.at(path, If_None_Match=etag)
    assert (again.status, again.raw, again.headers["ETag"]) == (304, b"", etag)
    assert client.at(path, If_None_Match='"0"').status == 200


@pytest.mark.parametrize("operation", CHANGES, ids=_name)
def test_a_change_of_what_was_changed_since_is_412(
    client: Client, everything: Everything, operation: Operation
) -> None:
    path = everything.path(operation)
    answer = client.at(path, method=operation.method, body=everything.body(operation) or {}, If_Match='"0"')
    assert (answer.status, answer.json["code"]) == (412, "precondition_failed"), answer.raw
