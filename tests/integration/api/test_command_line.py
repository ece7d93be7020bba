"""The command ``tieline`` against the real API: names lead to objects, and refusals say what to do."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import make_streams
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import connect, make_system
from tests.unit.cli.connector_files import SHOP
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.identity.ids import new_id

MAIN = "from tieline import Integration\nintegration = Integration()\n"


class Command:
    """Runs ``tieline`` as CI does, with a context made of environment variables."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")},
            "TIELINE_URL": client.url,
            "TIELINE_ORGANISATION": client.organisation,
            "TIELINE_TOKEN": str(client.token),
            "TIELINE_CONFIG_FOLDER": str(folder / "configuration"),
            "TIELINE_NO_KEYRING": "1",
        }

    def __call__(self, *arguments: str, code: int = 0, stdin: str | None = None, **more: str) -> str:
        """What it prints, on standard error where ``code`` says that it fails."""
        ended = self.run(*arguments, stdin=stdin, **more)
        assert ended.returncode == code, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout if code == 0 else ended.stderr

    def run(self, *arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end."""
        return subprocess.run(
            [sys.executable, "-c", "from tieline.cli.main import main; main()", *arguments],
            cwd=self._folder,
            env={**self._environment, **more},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def signing_in(self, login: Provider, *arguments: str) -> tuple[int, str]:
        """Runs a command that waits for a user, who agrees after somebody has sent wrong answers."""
        process = subprocess.Popen(
            [sys.executable, "-c", "from tieline.cli.main import main; main()", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        lines = iter(process.stderr)
        assert "Sign in at this address" in next(lines)
        url = next(lines).strip()
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        agreed = login.agree(url)
        for query in ({"code": "x", "state": "another"}, {"code": "x"}, agreed):
            with urllib.request.urlopen(f"{back}?{urlencode(query)}", timeout=30) as answer:
                assert answer.status == 200
        output, errors = process.communicate(timeout=60)
        assert agreed["code"] not in output + errors
        return process.returncode, output

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--output", "json"))


@pytest.fixture
def tieline(client: Client, tmp_path: Path) -> Command:
    (tmp_path / "main.py").write_text(MAIN)
    return Command(client, tmp_path)


def test_a_project_goes_from_creation_to_promotion_and_deletion(tieline: Command) -> None:
    tieline("projects", "create", "Cli one")
    project = ("--project", "cli one")
    deployed = json.loads(
        tieline("deploy", *project, "--version-name", "v1", "--wait", "0", "--output", "json")
    )
    assert deployed["version"]["name"] == "v1"
    tieline("env", "create", "staging", *project)
    assert "several environments: production, staging" in tieline("deploy", *project, code=2)
    promote = ("promote", "--from", "production", "--to", "staging", *project, "--yes", "--wait", "0")
    refused = tieline(*promote, code=1)
    assert "v1 does not serve in production (nothing serves; progressing)" in refused
    promoted = json.loads(tieline(*promote, "--force", "--output", "json"))
    assert promoted["version"] == deployed["version"]
    versions = tieline("versions", *project)
    assert "production, staging" in versions
    assert "system:serviceaccount:" in versions, "who made them"
    assert "No version was healthy in staging" in tieline(
        "rollback", "--environment", "staging", *project, code=4
    )
    say = tieline("suspend", "--environment", "staging", "--yes", "--wait", "0", *project)
    assert "Suspending staging" in say
    assert [item["name"] for item in tieline.json("env", "list", *project)] == ["production", "staging"]
    tieline("env", "create", "copy", "--clone", "staging", *project)
    tieline("env", "delete", "staging", *project, code=2)
    tieline("env", "delete", "staging", "--yes", *project)
    assert [item["name"] for item in tieline.json("env", "list", *project)] == ["production", "copy"]
    tieline("projects", "delete", "Cli one", "--yes")
    assert "There is no project 'cli one'" in tieline("versions", *project, code=4)


def test_findings_stop_a_deploy_before_anything_is_uploaded(
    tieline: Command, tmp_path: Path, client: Client
) -> None:
    tieline("projects", "create", "Cli two")
    (tmp_path / "main.py").write_text("import nowhere_to_be_found\ndef (:\n")
    refused = tieline("deploy", "--project", "Cli two", code=1)
    assert "main.py:2" in refused
    assert "Nothing was deployed" in refused
    assert tieline.json("versions", "--project", "Cli two") == []


def test_a_key_gets_a_role_and_loses_it(tieline: Command) -> None:
    key = tieline.json("keys", "create", "reporting", "--expires", "1d")
    assert key["role"] == "none"
    tieline("roles", "assign", "viewer", "--user", key["subject"])
    assert "already" in tieline("roles", "assign", "viewer", "--user", key["subject"], code=1)
    (binding,) = [
        one for one in tieline.json("roles", "list") if one["subjects"][0]["name"] == key["subject"]
    ]
    assert f"User {key['subject']}" in tieline("roles", "list")
    eventually(
        "the key may list projects",
        lambda: tieline.run("projects", "list", TIELINE_TOKEN=key["key"]).returncode == 0,
    )
    tieline("roles", "remove", binding["id"], "--yes")
    tieline("keys", "revoke", key["id"], "--yes")
    assert key["id"] not in tieline("keys", "list")
    tieline("projects", "list", code=3, TIELINE_TOKEN=key["key"])


def test_a_channel_is_notified_until_it_is_deleted(tieline: Command, tmp_path: Path) -> None:
    tieline("projects", "create", "Cli notified")
    (tmp_path / "secret").write_text("https://hooks.slack.com/services/x")
    tieline("channels", "create", "Cli channel", "--type", "slack", "--secret-file", "secret")
    project = ("--project", "Cli notified")
    tieline("notifications", "create", "cli channel", *project, "--event", "run_dead")
    assert "run_dead" in tieline("notifications", "list", *project)
    assert "Cli channel" in tieline("channels", "list")
    assert "use" in tieline("channels", "delete", "Cli channel", "--yes", code=1)
    tieline("notifications", "delete", "Cli channel", *project, "--yes")
    tieline("channels", "delete", "Cli channel", "--yes")
    assert "Cli channel" not in tieline("channels", "list")


def test_names_that_several_objects_have_ask_for_an_id(tieline: Command) -> None:
    tieline("projects", "create", "Twice")
    tieline("projects", "create", "Twice")
    ids = [item["id"] for item in tieline.json("projects", "list") if item["name"] == "Twice"]
    assert len(ids) == 2
    refused = tieline("versions", "--project", "Twice", code=2)
    assert all(identifier in refused for identifier in ids)
    assert tieline.json("versions", "--project", ids[0].lower()) == []


def test_systems_templates_and_connections_are_created_and_found_by_name(
    tieline: Command, tmp_path: Path
) -> None:
    scheme = {"type": "api-key", "apiKey": {"id": "key", "name": "X-Key", "in": "header"}}
    tieline("systems", "create", "Cli shop", "--url", "https://shop.example", "--auth", json.dumps([scheme]))
    tieline("projects", "create", "Cli three")
    project = ("--project", "Cli three")
    tieline("templates", "add", "shop", "--system", "cli shop", *project)
    assert "none yet" in tieline("templates", "list", *project)
    credential = {"credential": {"type": "string", "data": {"string": {"value": "s3cr3t"}}}}
    (tmp_path / "credentials.json").write_text(json.dumps([{**credential, "authSchemeConfig": scheme}]))
    given = ("--credentials", f"@{tmp_path / 'credentials.json'}")
    tieline("connections", "create", "shop", "--name", "Cli connection", *given, *project)
    assert "Cli connection" in tieline("templates", "list", *project)
    shown = tieline("connections", "show", "Cli connection")
    assert "string" in shown
    assert "s3cr3t" not in shown + tieline("connections", "list") + tieline(
        "connections", "list", "-o", "yaml"
    )
    assert "no OAuth 2.0 credential" in tieline("connections", "connect", "Cli connection", code=2)
    tools = ("connections", "tools", "Cli connection")
    assert "call nothing" in tieline(*tools)
    assert "agents may" not in shown
    assert "call operations with GET and HEAD" in tieline(*tools, "--read")
    assert tieline.json(*tools, "--operation", "createOrder", "--operation", "payOrder") == {
        "read": True,
        "operations": ["createOrder", "payOrder"],
    }
    assert "call createOrder, payOrder" in tieline(*tools, "--no-read")
    assert "agents may:" in tieline("connections", "show", "Cli connection")
    assert "not both" in tieline(*tools, "--close", "--read", code=1)
    assert tieline.json(*tools, "--close") == {}
    tieline("manifests", *project)
    tieline("templates", "remove", "shop", "--yes", *project)
    assert tieline.json("templates", "list", *project) == []
    assert "There is no connection 'nobody'" in tieline("connections", "show", "nobody", code=4)


def test_one_credential_is_rotated_and_the_others_stay(
    tieline: Command, tmp_path: Path, kubectl: Kubectl, org: Organisation
) -> None:
    key = {"type": "api-key", "apiKey": {"id": "key", "name": "X-Key", "in": "header"}}
    login = {"type": "basic-auth", "basicAuth": {"id": "login"}}
    auth = json.dumps([key, login])
    tieline("systems", "create", "Cli rotated", "--url", "https://shop.example", "--auth", auth)
    tieline("projects", "create", "Cli rotated")
    project = ("--project", "Cli rotated")
    tieline("templates", "add", "shop", "--system", "Cli rotated", *project)
    data = {
        "string": {"string": {"value": "0ld"}},
        "basic-auth": {"basicAuth": {"username": "ann", "password": "st4ys"}},
    }
    credentials = [
        {"id": one, "authSchemeConfig": scheme, "credential": {"type": kind, "data": data[kind]}}
        for one, scheme, kind in (("key", key, "string"), ("login", login, "basic-auth"))
    ]
    given = ("--credentials", json.dumps(credentials))
    tieline("connections", "create", "shop", "--name", "Cli rotated", *given, *project)
    rotate = ("connections", "rotate", "Cli rotated", "--values", '{"value": "n3w"}')
    several = tieline(*rotate, code=2)
    assert "Name one with --credential: Cli rotated has " in several
    assert "(string)" in several
    items = tieline.json("connections", "show", "Cli rotated")["credentials"]
    identifier = next(one["id"] for one in items if one["credential"]["type"] == "string")
    assert f"Rotated the credential {identifier} of Cli rotated" in tieline(
        *rotate, "--credential", identifier
    )
    secrets = json.loads(kubectl("get", "secrets", "-o", "json", namespace=org.namespace).stdout)["items"]
    values = {base64.b64decode(value) for one in secrets for value in (one.get("data") or {}).values()}
    assert {b"n3w", b"st4ys"} <= values
    assert b"0ld" not in values
    newest = ("connections", "rotate", "Cli rotated", "--values", '{"value": "newest"}')
    tieline(*newest, "--credential", identifier, "--keep-old-for", "7d")
    items = tieline.json("connections", "show", "Cli rotated")["credentials"]
    old, new = (one for one in items if one["credential"]["type"] == "string")
    assert (old["id"], new["authSchemeConfigId"]) == (identifier, old["authSchemeConfigId"])
    assert old["credential"]["expiresAt"]
    assert not new["credential"].get("expiresAt")
    secrets = json.loads(kubectl("get", "secrets", "-o", "json", namespace=org.namespace).stdout)["items"]
    values = {base64.b64decode(value) for one in secrets for value in (one.get("data") or {}).values()}
    assert {b"n3w", b"newest"} <= values


def test_a_first_deploy_creates_what_it_needs_and_users_are_activated(
    tieline: Command, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(MAIN + "\n\nasync def ask(ctx):\n    await ctx.fetch('cli-crm')\n")
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    (tmp_path / "variables.schema.json").write_text(json.dumps(schema))
    project = ("--project", "Cli first")
    refused = tieline("deploy", "--create", *project, "--wait", "0", code=1)
    assert "tieline templates add cli-crm --system NAME" in refused
    tieline("systems", "create", "cli-crm", "--url", "https://crm.example")
    tieline("deploy", "--create", *project, "--wait", "0")
    (found,) = [item for item in tieline.json("projects", "list") if item["name"] == "Cli first"]
    assert tieline.json("api", f"projects/{found['id']}/variables") == schema
    assert [item["name"] for item in tieline.json("templates", "list", *project)] == ["cli-crm"]
    tieline("users", "create", "cli-ann", "--name", "Ann")
    assert "cli-ann" in tieline("users", "list", "--search", "cli-ann")
    assert "is not active" in tieline("state", "list", "--user", "cli-ann", *project, code=4)
    tieline("users", "activate", "cli-ann", "--variables", '{"region": "eu"}', *project)
    # The engine has a place for state once something has run in the organisation. Both activations are known.
    for which in ((), ("--user", "cli-ann")):
        ended = tieline.run("state", "list", *which, *project)
        assert ended.returncode in (0, 5), ended.stderr
        assert "Activation 01" in ended.stderr


def test_audit_records_say_who_did_what(tieline: Command, client: Client, engine: NatsServer) -> None:
    made = make_system(client, name="Cli audited")["id"]
    make_streams(engine, client.organisation, new_id())
    listed = ("audit", "list", "--id", made, "--since", "1h")
    (record,) = eventually("the record", lambda: tieline.json(*listed))
    assert (record["operation"], record["outcome"]) == ("createSystem", "allowed")
    assert "Cli audited" in tieline(*listed)
    assert tieline.json(*listed, "--access") == []
    assert tieline("audit", "list", "--outcome", "odd", code=1)


def test_an_environment_is_configured_with_variables_from_values_and_secrets(tieline: Command) -> None:
    tieline("projects", "create", "Cli env")
    project = ("--project", "Cli env")

    def there(field: str = "env") -> Any:
        return tieline.json("env", "list", *project)[0]["config"].get(field)

    change = ("env", "config", "production", *project)
    tieline(*change, "--env", "LEVEL=debug=all", "--env", "REGION=eu", "--env-secret", "KEY=api/value")
    source = {"secretKeyRef": {"name": "api", "key": "value"}}
    assert there() == [
        {"name": "LEVEL", "value": "debug=all"},
        {"name": "REGION", "value": "eu"},
        {"name": "KEY", "valueFrom": source},
    ]
    tieline(*change, "--unset-env", "REGION", "--env", "LEVEL=info", "--sleep-after", "5m")
    assert there("scaling") == {"min": 0, "idleAfter": "5m"}
    assert there() == [{"name": "LEVEL", "value": "info"}, {"name": "KEY", "valueFrom": source}]
    assert "NAME=SECRET/KEY" in tieline(*change, "--env-secret", "KEY=api", code=2)
    assert "no variable of its own named REGION" in tieline(*change, "--unset-env", "REGION", code=2)


def test_a_template_asks_for_credentials_and_a_refused_connection_is_marked(
    tieline: Command, client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    tieline("projects", "create", "Cli exposed")
    system = make_system(client)
    added = ("templates", "add", "shop", "--project", "Cli exposed", "--system", system["id"])
    tieline(*added, "--expose-to-code")
    (template,) = tieline.json("templates", "list", "--project", "Cli exposed")
    assert template["exposeToCode"] is True
    made = connect(client, template, "key-1234", name="Cli refused", exposeToCode=True)
    refused = {"status": 401, "count": 3, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}
    annotation = f"{ANNOTATION}={json.dumps(refused)}"
    kubectl("annotate", "connection", made["id"].lower(), annotation, namespace=org.namespace)
    shown = eventually(
        "known",
        lambda: "3+ requests with 401" in (text := tieline("connections", "show", made["id"])) and text,
    )
    assert "key-1234" not in shown
    assert "refused" in tieline("connections", "list", "--system", system["id"])


def test_a_connection_is_made_and_connected_by_signing_in_at_the_system(
    first: Client, login: Provider, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(MAIN)
    tieline = Command(first, tmp_path)
    system = make_system(first, [login.scheme()])
    tieline("projects", "create", "Cli login")
    project = ("--project", "Cli login")
    tieline("templates", "add", "crm", "--system", system["id"], *project)
    connect = ("connections", "connect", f"Of {system['id']}", "--template", "crm", "--no-browser", *project)
    assert tieline.signing_in(login, *connect) == (0, f"Connected Of {system['id']}\n")
    (made,) = [
        item
        for item in tieline.json("connections", "list", "--limit", "10000")
        if item["name"] == f"Of {system['id']}"
    ]
    assert made["credentials"][0]["credential"]["type"] == "oauth2-token"
    assert tieline.signing_in(login, *connect)[0] == 0, "again: the connection is there now"
    (again,) = [
        item
        for item in tieline.json("connections", "list", "--limit", "10000")
        if item["name"] == f"Of {system['id']}"
    ]
    assert again["id"] == made["id"]
    assert len(login.requests) == 2


def test_a_description_becomes_a_connector(tieline: Command, tmp_path: Path) -> None:
    description = {
        "openapi": "3.0.3",
        "info": {"title": "Cli API", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {
            "/things": {"get": {"operationId": "listThings", "responses": {"200": {"description": "All"}}}}
        },
    }
    (tmp_path / "api.json").write_text(json.dumps(description))
    imported = tieline("connectors", "import", "api.json", "--version", "v1")
    assert "operations: 1" in " ".join(imported.split())
    assert "Cli API" in tieline("connectors", "list")
    (tmp_path / "broken.json").write_text("{")
    assert "tieline:" in tieline("connectors", "import", "broken.json", "--version", "v1", code=1)


def test_an_event_to_a_draft_is_refused_with_what_to_do(tieline: Command) -> None:
    tieline("projects", "create", "Cli four")
    project = ("--project", "Cli four")
    assert "not JSON" in tieline("events", "publish", "order.created", "{", *project, code=2)
    publish = ("events", "publish", "order.created", "--payload", '{"id": 1}', *project)
    assert "given twice" in tieline(*publish, "{}", code=2)
    assert "deploy" in tieline(*publish, code=1)
    assert "deploy" in tieline("events", "publish", "order.created", '{"id": 1}', *project, code=1)
    assert tieline.json("runs", "list", *project) == []
    assert "Name a run, or filters" in tieline("replay", *project, code=2)
    assert "Replay 0 runs" in tieline("replay", "--status", "dead", *project)


def test_a_sign_in_with_the_only_organisation_needs_no_id(tieline: Command, client: Client) -> None:
    clean = {"TIELINE_URL": "", "TIELINE_ORGANISATION": "", "TIELINE_TOKEN": ""}
    signed_in = tieline("login", client.url, "--token-stdin", stdin=str(client.token), **clean)
    assert client.organisation in signed_in
    assert client.organisation in tieline("whoami", **clean)
    assert "127.0.0.1" in tieline("context", "list", **clean)
    other = "01JD3Y000000000000000000RG"
    refused = tieline("projects", "list", "--organisation", other, code=4, **clean)
    assert other in refused
    refused = tieline("login", client.url, "--token-stdin", stdin="wrong-key", code=3, **clean)
    assert "wrong-key" not in refused
    assert client.organisation in tieline("whoami", **clean), "a sign-in that failed leaves the one before"


def test_any_operation_can_be_called(tieline: Command, client: Client) -> None:
    made = json.loads(tieline("api", "projects", "-X", "POST", "--data", '{"name": "Cli five"}'))
    assert json.loads(tieline("api", f"projects/{made['id']}"))["name"] == "Cli five"
    listed = json.loads(tieline("api", f"/api/v2/o/{client.organisation}/systems", "--query", "first=1"))
    assert len(listed["items"]) <= 1
    assert "must be" in tieline("api", "systems", "-q", "first=0", code=1)
    assert eventually("gone", lambda: tieline("api", f"projects/{made['id']}", "-X", "DELETE") == "")


def test_a_connector_becomes_a_typed_module_beside_the_code(tieline: Command, tmp_path: Path) -> None:
    (tmp_path / "api.json").write_text(json.dumps({**SHOP, "info": {"title": "Desk shop", "version": "1"}}))
    (tmp_path / "main.py").write_text(MAIN)
    tieline("connectors", "import", "api.json", "--version", "1")
    assert "createOrder" in tieline("connectors", "search", "orders", "POST", "--connector", "desk shop")
    wrote = tieline("connectors", "add", "desk shop")
    assert "`from connectors.desk_shop import DeskShop`" in wrote
    source = (tmp_path / "connectors/desk_shop.py").read_text()
    assert "async def create_order(" in source
    assert tieline("connectors", "add", "desk shop", "--check") == ""
    refused = tieline("connectors", "add", "desk shop", "--operations", "getOrder,cancelOrder", code=4)
    assert "no operation 'cancelOrder'" in refused
    tieline("connectors", "add", "desk shop", "--operations", "getOrder", "--sync")
    part = json.loads((tmp_path / "connectors/desk_shop.json").read_bytes())
    assert (list(part["operations"]), list(part["schemas"])) == (["getOrder"], ["Line", "Order"])
    assert "    def get_order(" in (tmp_path / "connectors/desk_shop.py").read_text()
    # What was chosen once stays chosen.
    assert tieline("connectors", "add", "desk shop", "--check") == ""
    assert "out of date" in tieline("connectors", "add", "desk shop", "--check", "--all", code=1)
    assert "out of date" in tieline("connectors", "add", "desk shop", "--check", "--no-sync", code=1)
    (tmp_path / "connectors/other.py").write_text("mine = True\n")
    assert "was not written by this command" in tieline(
        "connectors", "add", "desk shop", "--as", "other", code=1
    )
    assert (tmp_path / "connectors/other.py").read_text() == "mine = True\n"
    assert not (tmp_path / "connectors/other.json").exists()
    tieline("connectors", "add", "desk shop", "--as", "../../evil")
    assert sorted(path.name for path in (tmp_path / "connectors").iterdir()) == [
        "desk_shop.json",
        "desk_shop.py",
        "evil.json",
        "evil.py",
        "other.py",
    ]
    assert "Nothing refuses a deploy" in tieline("check")
