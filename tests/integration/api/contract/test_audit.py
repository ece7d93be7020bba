"""Every operation of the contract leaves a record if it writes, and no record has a secret."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.contract.all_resources import make_everything
from tests.integration.api.engine_objects import with_engine
from tests.integration.api.objects import API_KEY, make_project, make_system, make_template
from tieline_api.handlers import OPERATIONS
from tieline_api.http.auditing import NOT_WRITES
from tieline_api.page_tokens import seal
from tieline_core.engine.audit_streams import AuditPart, audit_stream
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

MARKER = "pl4nted-s3cr3t"
_KEPT = {
    "name",
    "versionName",
    "environment",
    "type",
    "kind",
    "role",
    "op",
    "path",
    "filename",
    "status",
    "method",
}
"""Keys whose values a record may show, or that make a body one that is refused at once. Those of ids are kept too."""


def _planted(value: Any, key: str = "") -> Any:
    """A body with the marker in every text that a record must not show."""
    if isinstance(value, dict):
        return {name: _planted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_planted(item, key) for item in value]
    is_kept = key in _KEPT or key.lower().endswith(("id", "url"))
    return f"{value}{MARKER}" if isinstance(value, str) and not is_kept else value


def records(client: Client, query: str = "", *, log: AuditPart = AuditPart.CHANGES) -> list[dict[str, Any]]:
    found, after = [], ""
    while True:
        page = client.ok("GET", f"/audit?first=100&log={log}{query}{after}")
        found += page["items"]
        if "next" not in page:
            return found
        after = f"&after={page['next']}"


@pytest.fixture(scope="module")
def secrets(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> list[str]:
    """Calls every operation that is no read, with planted secrets, and returns these."""
    everything = make_everything(client, engine, kubectl, org)
    tokens: list[str] = []
    writes = [one for one in OPERATIONS if one.method not in ("GET", "HEAD", "OPTIONS") or one.proxies]
    for operation in sorted(writes, key=lambda one: one.method == "DELETE" or one.id.startswith("delete")):
        body = everything.body(operation)
        for sent in [body] if body is None else [_planted(body), body]:
            query = f"?environment=production&secret={MARKER}"
            answer = client.at(everything.path(operation) + query, method=operation.method, body=sent)
            if operation.id in ("createApiKey", "createConnectSession") and answer.status < 300:
                tokens += [text for text in _texts(answer.json) if text.startswith(("tlk_", "tcs_"))]
    project, template = make_template(client, project=make_project(client), system=make_system(client)["id"])
    credential = {
        "id": "key", "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": f"{MARKER}-credential"}}},
    }  # fmt: skip
    new = {"name": "Kept", "credentials": [credential]}
    given = {"connectionTemplateId": template["connectionTemplateId"], "connection": new}
    connection = client.ok("POST", "/connections", given, status=201)["id"]
    changed = {"name": "Renamed", "credentials": [credential]}
    assert client("PUT", f"/connections/{connection}", changed).status < 300
    assert client("DELETE", f"/connections/{connection}").status < 300
    _, dynamic = make_template(
        client, project=project, system=make_system(client)["id"], name="dynamic", dynamic=True
    )
    begun = {
        "user": {"externalId": "ann"}, "environmentId": project["environments"][0]["id"],
        "connectionTemplateIds": [dynamic["connectionTemplateId"]],
    }  # fmt: skip
    session = client.ok("POST", "/connect-sessions", begun, status=201)
    tokens += [text for text in _texts(session) if text.startswith("tcs_")]
    assert {token[:4] for token in tokens} == {"tlk_", "tcs_"}
    end_user = replace(client, token=session["token"])
    assert end_user.at("/api/v2/connect/session", method="DELETE").status < 300
    last = {AuditPart.CHANGES: '"createConnectSession"', AuditPart.ACCESS: '"endCurrentConnectSession"'}
    for part, operation in last.items():
        eventually(
            operation,
            lambda part=part, operation=operation: any(
                operation in one for one in stored(engine, client.organisation, part)[-1:]
            ),
        )
    return [MARKER, "s3cr3t", *tokens]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def stored(engine: NatsServer, organisation: str, part: AuditPart = AuditPart.CHANGES) -> list[str]:
    """The records as the engine has them: REST shows none that does not have its form."""

    async def read(client: Nats) -> list[str]:
        jetstream, stream = client.jetstream(), audit_stream(organisation, part)
        state = (await jetstream.stream_info(stream)).state
        numbers = range(state.first_seq, state.last_seq + 1)
        return [((await jetstream.get_msg(stream, number)).data or b"").decode() for number in numbers]

    return with_engine(engine, read)


def test_no_record_has_a_secret_or_its_digest(client: Client, engine: NatsServer, secrets: list[str]) -> None:
    kept = [one for part in AuditPart for one in stored(engine, client.organisation, part)]
    text = "".join(kept)
    for secret in secrets:
        assert secret not in text
        assert hashlib.sha256(secret.encode()).hexdigest() not in text
    for token in secrets[2:]:
        assert token.rpartition("_")[2] not in text
    assert len(kept) == sum(len(records(client, log=part)) for part in AuditPart), "REST shows them all"


def test_every_write_has_a_record(client: Client, secrets: list[str]) -> None:
    recorded = {one["operation"] for part in AuditPart for one in records(client, log=part)}
    assert not recorded & NOT_WRITES
    changes = {"createSystem", "updateSystem", "createConnection", "updateConnection", "deleteConnection",
               "createProject", "updateProject", "deployProject", "createApiKey", "deleteApiKey",
               "createRoleBinding", "createConnectSession", "createUser", "setStoreValue", "createNotificationChannel",
               "updateEnvironmentConfig", "updateStaticVariables", "endCurrentConnectSession"}  # fmt: skip
    assert changes <= recorded


def test_numbers_rise_by_one_and_pages_leave_none_out(client: Client, secrets: list[str]) -> None:
    numbers = [one["sequence"] for one in records(client)]
    assert len(numbers) > 100
    assert numbers == list(range(numbers[0], numbers[-1] - 1, -1))
    assert client("GET", "/audit?after=bm8").status == 400
    following = client.ok("GET", "/audit?first=1")["next"]
    assert client("GET", f"/audit?first=1&after={following}").status == 200
    assert client("GET", f"/audit?first=1&log=access&after={following}").status == 400
    made_up = seal("audit", new_id(), "changes", numbers[0])
    assert client("GET", f"/audit?after={made_up}").status == 400, "a cursor of another organisation"


def test_a_change_is_found_by_its_object(client: Client, secrets: list[str]) -> None:
    created = make_system(client)["id"]
    client.ok("PUT", f"/systems/{created}", {"name": "Renamed"}, status=201)
    eventually("both", lambda: len(records(client, f"&id={created}")) == 2)
    update, create = records(client, f"&id={created.lower()}")
    assert (create["operation"], update["operation"]) == ("createSystem", "updateSystem")
    assert (update["outcome"], update["kind"], update["via"]) == ("allowed", "systems", "rest")
    (change,) = update["changes"]
    assert [one["after"] for one in change["fields"] if one["name"] == "name"] == ["Renamed"]
    assert not records(client, f"&id={created}&outcome=refused")
    assert not records(client, f"&id={created}&kind=projects")
    assert not records(client, f"&id={created}&until={update['at'][:4]}-01-01T00:00:00Z")
    assert len(records(client, f"&id={created}&subject={update['subject']}")) == 2


def test_who_is_refused_is_recorded_and_may_not_read_it(client: Client, secrets: list[str]) -> None:
    anonymous = Client(client.url, None, client.organisation)
    assert anonymous("POST", "/systems", {"name": MARKER}).status == 401
    refused = eventually(
        "the refusal", lambda: records(client, "&outcome=refused&kind=systems", log=AuditPart.ACCESS)
    )
    assert any((one["status"], one["subject"]) == (401, "") for one in refused)
    assert anonymous("GET", "/audit").status == 401
