"""Every example of a request in the OpenAPI document does what it shows, sent to a running API."""

import copy
import json
from typing import Any

import pytest

from tests.harness.clients import typed_client
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.contract.all_resources import make_everything
from tests.integration.api.contract.test_openapi_links import Document
from tests.integration.api.engine_objects import report
from tests.integration.api.objects import MAIN, make_project, make_system, make_template, operator_reports
from tests.integration.api.resources.test_connectors import import_into, shop
from tests.unit.oauth.oauth1_provider import OAuth1Provider
from tieline_api.handlers import OPERATIONS
from tieline_api.schemas import examples
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunRecord

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
WITH_BODY = [one.id for one in OPERATIONS if one.body is not None]
# They ask a provider of OAuth 1.0 for temporary credentials, or upload a file: sent below in their own way. A call of a
# webhook needs pods: tests/e2e/test_kubectl_and_rest_agree.py sends that one.
OTHERWISE = {"initialiseOAuth1", "importConnector", "callEnvironment", "runScheduler", "updateScheduler"}


@pytest.fixture(scope="module")
def document(client: Client) -> Document:
    return Document(client)


@pytest.mark.parametrize("operation", sorted(set(WITH_BODY) - OTHERWISE))
def test_an_example_does_what_it_shows(
    client: Client,
    engine: NatsServer,
    kubectl: Kubectl,
    org: Organisation,
    document: Document,
    operation: str,
) -> None:
    """Ids in it are replaced by those of things that are there; nothing else is."""
    paths = _things(client, engine, kubectl, org)
    method, template, _ = document.operations[operation]
    example = document.example(operation)
    assert example is not None
    if operation in ("linkConnection", "unlinkConnection"):
        paths["dynamic_id"] = paths[
            "template_id"
        ]  # a static one, which the connection is linked with already
    if "environmentId" in example or "environment_id" in example:
        paths["project_id"] = paths["new_project_id"]
    if operation == "signalRun":
        paths["run_id"] = _waiting_run(client, engine, paths)
    if operation.startswith("removeSystem"):
        project = {"id": paths["project_id"]}
        make_template(client, project=project, system=paths["system_id"], name=example["name"])
    if operation == "syncEnvironments":
        at = f"/projects/{paths['project_id']}"
        client.ok("POST", f"{at}/environments", {"name": example["sourceEnvName"]})
        client.ok("PUT", f"{at}/deploy?project_env={example['sourceEnvName']}", {"files": [MAIN]})
        name = paths["project_id"].lower()
        found = kubectl("get", "projects.tieline.dev", name, "-o", "json", namespace=org.namespace).stdout
        operator_reports(kubectl, org, json.loads(found), environment=example["sourceEnvName"])
    answer = client.at(template.format_map(paths), method=method, body=_with_ids(example, paths))
    status, _ = document.good(operation)
    assert answer.status == status, answer.raw
    warned = answer.headers.get("Warning", "")
    # The example refers to a Secret of its reader's.
    names_a_secret = operation == "updateEnvironmentConfig" and "there is no Secret" in warned
    assert not warned or names_a_secret, "an example has no field that is not known"
    if operation in typed_client.ANSWERS:
        typed_client.read(operation, answer.json)


def test_the_example_of_oauth1_does_what_it_shows(
    first: Client, document: Document, signing: OAuth1Provider
) -> None:
    example = document.example("initialiseOAuth1")
    system = make_system(first, [signing.scheme(example["authSchemeConfigId"])])
    path = f"/systems/{system['id']}/oauth1/initialise"
    body = _with_ids(example, {"organisation_id": first.organisation})
    typed_client.read("initialiseOAuth1", first.ok("POST", path, body))


def test_the_example_of_an_import_does_what_it_shows(client: Client, document: Document) -> None:
    content = document.operations["importConnector"][2]["requestBody"]["content"]["multipart/form-data"]
    answer: Answer = import_into(client, new_id(), shop(), content["example"]["metadata"]["version"])
    assert answer.status == 201, answer.raw
    typed_client.read("importConnector", answer.json)


def _things(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> Json:
    """New things for an example to be about, which is as if it were the first request of somebody."""
    paths = dict(make_everything(client, engine, kubectl, org).paths)
    project = make_project(client)
    _, dynamic = make_template(
        client, project=project, system=paths["system_id"], name="of-users", dynamic=True
    )
    client.ok(
        "PUT", f"/projects/{project['id']}/variables", examples.MODELS["Project"]["dynamicVariablesSchema"]
    )
    user = client.ok("POST", "/users", {"externalId": f"shown-{new_id()}"}, status=201)
    return {**paths, "new_environment_id": project["environments"][0]["id"], "new_user": user["externalId"],
            "dynamic_id": dynamic["connectionTemplateId"], "new_project_id": project["id"]}  # fmt: skip


def _waiting_run(client: Client, engine: NatsServer, paths: Json) -> str:
    """The id of a run that has not ended."""
    run = RunRecord(
        id=new_id(),
        kind="event",
        task="order.created",
        version="v1",
        status="waiting",
        attempt=1,
        queued_at=1e9,
        at=1e9,
    )
    report(engine, client.organisation, paths["environment_id"], run)
    at = f"/projects/{paths['project_id']}/runs/{run.id}"
    eventually("the run", lambda: client("GET", at).status == 200)
    return run.id


def _with_ids(example: Any, paths: Json) -> Any:
    """The example with ids of this organisation in place of those that it shows, and names that nobody has yet."""
    text = json.dumps(copy.deepcopy(example))
    for shown, there in (
        (examples.MODELS["EndUser"]["organisationId"], paths["organisation_id"]),
        (examples.MODELS["System"]["id"], paths.get("system_id", "")),
        (examples.MODELS["TemplateCreate"]["environmentId"], paths.get("new_environment_id", "")),
        (examples.MODELS["NotificationChannel"]["id"], paths.get("channel_id", "")),
        (examples.MODELS["ConnectionTemplate"]["connectionTemplateId"], paths.get("dynamic_id", "")),
        ("login:ops", f"login:ops-{new_id().lower()}"),
        ("customer-17", paths.get("new_user", "") if "userId" in example else f"customer-{new_id()}"),
    ):
        text = text.replace(shown, there)
    return json.loads(text)
