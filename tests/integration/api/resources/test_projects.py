"""Projects, files, versions, deploying and templates, by REST on a real API server."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import (
    MAIN,
    make_project,
    make_system,
    make_template,
    operator_reports,
    stored,
)
from tieline_core.identity.ids import environment_id, new_id

pytestmark = pytest.mark.cluster

OTHER = {"filename": "shop/orders.py", "content": "ORDERS = 'zwölf'\n"}


def _path(project: dict[str, Any]) -> str:
    return f"/projects/{project['id']}"


def test_a_new_project_has_one_draft_environment_and_an_empty_schema(client: Client) -> None:
    project = make_project(client)
    assert project["settings"] == {"acceptCodeChangesAutomatically": False, "keepInputs": False}
    assert project["currentFiles"] == {"files": [], "labels": {}}
    assert project["dynamicVariablesSchema"] == {"type": "object", "properties": {}}
    environment = project["environments"][0]
    assert (environment["name"], environment["status"]) == ("production", "draft")
    assert environment["id"] == environment_id(project["id"], "production")
    assert client.ok("GET", _path(project)) == project
    listed = client.ok("GET", "/projects")["projects"]
    assert {"id": project["id"], "name": project["name"]}.items() <= next(
        item for item in listed if item["id"] == project["id"]
    ).items()


def test_an_id_may_be_chosen_once(client: Client) -> None:
    identifier = new_id()
    created = client.ok("POST", "/projects", {"name": "Mine", "id": identifier.lower()})
    assert created["id"] == identifier
    taken = client("POST", "/projects", {"name": "Again", "id": identifier})
    assert (taken.status, taken.json["code"]) == (409, "conflict")
    assert client.ok("GET", f"/projects/{identifier}")["name"] == "Mine"
    assert client("POST", "/projects", {"name": "Bad", "id": "x"}).fields == ["id"]


def test_updating_the_record_leaves_files_and_what_runs_alone(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    client.ok("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    before = stored(kubectl, org, "project", project["id"])["spec"]
    updated = client.ok(
        "PUT", _path(project), {"name": "Renamed", "settings": {"acceptCodeChangesAutomatically": True}}
    )
    assert updated["name"] == "Renamed"
    assert updated["settings"] == {"acceptCodeChangesAutomatically": True, "keepInputs": False}
    assert client.ok("PUT", _path(project), {"settings": {}})["settings"] == updated["settings"]
    both = client.ok("PUT", _path(project), {"settings": {"keepInputs": True}})["settings"]
    assert both == {"acceptCodeChangesAutomatically": True, "keepInputs": True}
    after = stored(kubectl, org, "project", project["id"])["spec"]
    assert {key: after[key] for key in ("source", "environments")} == {
        key: before[key] for key in ("source", "environments")
    }


def test_files_are_kept_without_being_deployed(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project = make_project(client)
    body = {"files": [OTHER, MAIN], "labels": {"team": "ops"}}
    answer = client.ok("PUT", f"{_path(project)}/files", body)
    assert answer == client.ok("GET", f"{_path(project)}/files")
    assert sorted(answer["files"], key=lambda file: file["filename"]) == [MAIN, OTHER]
    assert answer["labels"] == {"team": "ops"}
    shown = client.ok("GET", _path(project))
    assert shown["environments"][0]["status"] == "draft"
    assert client.ok("GET", f"{_path(project)}/versions")["totalCount"] == 0
    source = stored(kubectl, org, "project", project["id"])["spec"]["source"]["configMaps"]
    content = stored(kubectl, org, "configmap", source[0]["name"])
    assert content["immutable"] is True
    # All files are replaced, not merged.
    client.ok("PUT", f"{_path(project)}/files", {"files": [MAIN], "labels": {}})
    assert client.ok("GET", f"{_path(project)}/files") == {"files": [MAIN], "labels": {}}
    client.ok("PUT", f"{_path(project)}/files", {"files": [], "labels": {}})
    assert client.ok("GET", f"{_path(project)}/files") == {"files": [], "labels": {}}


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([{"filename": "../etc/passwd", "content": ""}], 422),
        ([{"filename": "/main.py", "content": ""}], 422),
        ([{"filename": "", "content": ""}], 422),
        ([{"filename": "a\\b", "content": ""}], 422),
        ([MAIN, MAIN], 422),
        ([{"filename": "big.txt", "content": "x" * (1024 * 1024 + 1)}], 413),
        ([{"filename": f"{number}.txt", "content": "x" * (1024 * 1024)} for number in range(9)], 413),
    ],
    ids=["parent", "absolute", "empty", "backslash", "twice", "one too large", "all too large"],
)
def test_files_that_cannot_be_kept_are_refused(
    client: Client, files: list[dict[str, str]], status: int
) -> None:
    answer = client("PUT", f"{_path(make_project(client))}/files", {"files": files, "labels": {}})
    assert answer.status == status
    if status == 413:
        assert "MiB" in answer.json["message"]
        assert answer.json["limit"] in (1024 * 1024, 8 * 1024 * 1024)


def test_eight_mebibytes_of_files_are_kept_whole(client: Client) -> None:
    project = make_project(client)
    files = [MAIN] + [
        {"filename": f"{number}.txt", "content": chr(97 + number) * (1024 * 1024)} for number in range(7)
    ]
    client.ok("PUT", f"{_path(project)}/files", {"files": files, "labels": {}})
    shown = client.ok("GET", f"{_path(project)}/files")["files"]
    assert {file["filename"]: len(file["content"]) for file in shown} == {
        file["filename"]: len(file["content"]) for file in files
    }


def test_a_deploy_makes_a_version_and_points_the_environment_at_it(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    body = {
        "files": [MAIN, OTHER],
        "labels": {"team": "ops"},
        "versionName": "First",
        "versionDescription": "All",
    }
    deployed = client.ok("PUT", f"{_path(project)}/deploy", body)
    assert sorted(deployed["currentFiles"]["files"], key=lambda file: file["filename"]) == [MAIN, OTHER]
    environment = deployed["environments"][0]
    assert environment["labels"] == {"team": "ops"}
    assert [file["filename"] for file in environment["files"]] == ["main.py", "shop/orders.py"]
    versions = client.ok("GET", f"{_path(project)}/versions")["items"]
    assert [(version["name"], version["labels"]) for version in versions] == [("First", {"team": "ops"})]
    (spec,) = stored(kubectl, org, "project", project["id"])["spec"]["environments"]
    note, name = spec.pop("deployNote"), versions[0]["id"].lower()
    assert spec == {"name": "production", "version": name, "suspended": False}
    assert (note["version"], note["message"]) == (name, "All")
    version = stored(kubectl, org, "projectversion", versions[0]["id"])
    assert version["metadata"]["ownerReferences"][0]["kind"] == "Project"
    files = client.ok("GET", f"{_path(project)}/versions/{versions[0]['id']}/files")
    assert sorted(files["files"], key=lambda file: file["filename"]) == [MAIN, OTHER]


def test_without_files_the_current_ones_are_deployed_and_older_versions_can_come_back(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    client.ok("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    client.ok(
        "PUT", f"{_path(project)}/files", {"files": [{**MAIN, "content": "print('two')\n"}], "labels": {}}
    )
    answer = client("PUT", f"{_path(project)}/deploy")
    assert answer.status == 200, answer.raw
    page = client.ok("GET", f"{_path(project)}/versions?first=1")
    assert page["totalCount"] == 2
    assert "prev" not in page
    older = client.ok("GET", f"{_path(project)}/versions?after={page['next']}")["items"]
    assert [version["id"] for version in older] < [page["items"][0]["id"]]
    back = client.ok("PUT", f"{_path(project)}/versions/{older[0]['id']}/deploy?project_env=production")
    spec = stored(kubectl, org, "project", project["id"])["spec"]
    assert spec["environments"][0]["version"] == older[0]["id"].lower()
    assert back["currentFiles"]["files"][0]["content"] == "print('two')\n", (
        "what is current is not rolled back"
    )
    other = make_project(client)
    assert client("PUT", f"{_path(other)}/versions/{older[0]['id']}/deploy").status == 404


@pytest.mark.parametrize("failure", ["", "CrashLoop"])
def test_a_deploy_can_wait_for_the_outcome_of_its_rollout(
    client: Client, kubectl: Kubectl, org: Organisation, failure: str
) -> None:
    project = make_project(client)
    path = f"{_path(project)}/deploy"
    begun = client.ok("PUT", path, {"files": [MAIN]})["environments"][0]
    assert begun["rollout"] == {"state": "progressing"}
    still = client.ok("PUT", f"{path}?wait=0.1", {"files": [OTHER, MAIN]})["environments"][0]
    assert still["rollout"] == {"state": "progressing"}
    assert still["deployedVersion"] != begun["deployedVersion"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.ok, "PUT", f"{path}?wait=60", {"files": [MAIN]})

        def deployed() -> dict[str, Any] | None:
            found = stored(kubectl, org, "project", project["id"])
            version = found["spec"]["environments"][0]["version"]
            return found if version not in (name(begun), name(still)) else None

        def name(environment: dict[str, Any]) -> str:
            return str(environment["deployedVersion"]["name"])

        operator_reports(kubectl, org, eventually("the third version", deployed), failure=failure)
        ended = waiting.result(60)["environments"][0]
    if failure:
        assert ended["rollout"] == {
            "state": "failed",
            "reason": failure,
            "message": "it ends at once",
        }
        assert ended["message"] == "production: it ends at once"
        assert "servingVersion" not in ended
    else:
        assert ended["rollout"] == {"state": "complete"}
        assert ended["servingVersion"] == ended["deployedVersion"]
    assert client("PUT", f"{path}?wait=301", {"files": [MAIN]}).fields == ["wait"]


def test_a_deploy_that_is_replaced_while_it_waits_is_a_conflict(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    path = f"{_path(project)}/deploy"
    with ThreadPoolExecutor(2) as pool:
        deploying = pool.submit(client, "PUT", f"{path}?wait=60", {"files": [MAIN]})
        first = eventually(
            "the first version",
            lambda: client.ok("GET", _path(project))["environments"][0].get("deployedVersion"),
        )
        second = client.ok("PUT", path, {"files": [OTHER, MAIN]})["environments"][0]["deployedVersion"]
        assert second != first
        replaced = deploying.result(60)
        assert (replaced.status, replaced.json["code"]) == (409, "conflict")
        assert "Another deploy" in replaced.json["message"]

        suspending = pool.submit(client, "POST", f"{_path(project)}/suspend?environment=production&wait=60")
        eventually(
            "the suspension",
            lambda: "rollout" not in client.ok("GET", _path(project))["environments"][0],
        )
        assert not suspending.done(), "nothing has stopped it yet"
        client.ok("PUT", path)
        assert suspending.result(60).status == 409


def test_a_deploy_whose_webhooks_match_the_same_path_is_refused_with_the_line(client: Client) -> None:
    project = make_project(client)
    code = """from tieline import Integration
integration = Integration()
@integration.webhook("orders/{a}")
def first() -> None: ...
@integration.webhook("orders/{b}")
def second() -> None: ...
"""
    refused = client("PUT", f"{_path(project)}/deploy", {"files": [{"filename": "main.py", "content": code}]})
    assert (refused.status, refused.fields) == (422, ["files[main.py]:5"])
    assert "both match /orders/x" in refused.json["fields"][0]["message"]
    assert client.ok("GET", f"{_path(project)}/versions")["totalCount"] == 0


def test_a_deploy_is_refused_with_its_findings(client: Client) -> None:
    project = make_project(client)
    files = [{"filename": "main.py", "content": 'async def f(ctx):\n    await ctx.fetch("crm", "/")\n'}]
    missing = client("PUT", f"{_path(project)}/deploy", {"files": files})
    assert (missing.status, missing.fields) == (422, ["files[main.py]:2"])
    assert '"crm"' in missing.json["fields"][0]["message"]
    broken = client(
        "PUT", f"{_path(project)}/deploy", {"files": [{"filename": "main.py", "content": "def (:\n"}]}
    )
    assert (broken.status, broken.fields) == (422, ["files[main.py]:1"])
    required = [MAIN, {"filename": "requirements.txt", "content": "requests"}]
    refused = client("PUT", f"{_path(project)}/deploy", {"files": required, "labels": {}})
    assert (refused.status, refused.fields) == (422, ["files[requirements.txt]:1"])
    assert "requests has no exact version" in refused.json["fields"][0]["message"]
    assert client("PUT", f"{_path(project)}/deploy").status == 422, "there is nothing to deploy"
    assert client.ok("GET", f"{_path(project)}/versions")["totalCount"] == 0
    make_template(client, project=project, name="crm")
    client.ok("PUT", f"{_path(project)}/deploy", {"files": files})


def test_suspend_tells_an_environment_to_stop_and_a_deploy_starts_it_again(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    client.ok("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    identifier = project["environments"][0]["id"]

    def suspended() -> bool:
        found: bool = stored(kubectl, org, "project", project["id"])["spec"]["environments"][0]["suspended"]
        return found

    refused = client("POST", f"{_path(project)}/suspend", {"environment": identifier})
    assert (refused.status, refused.fields) == (422, ["environment"])
    assert "it was sent in the body, send it in the query" in refused.json["message"]
    client.ok("POST", f"{_path(project)}/suspend?environment={identifier.lower()}")
    assert suspended()
    client.ok("PUT", f"{_path(project)}/deploy?env_id={identifier}")
    assert not suspended()
    client.ok("POST", f"{_path(project)}/suspend?environment=production")
    assert suspended()
    assert client("POST", f"{_path(project)}/suspend").fields == ["environment"]
    assert client("POST", f"{_path(project)}/suspend?environment=staging").status == 404


def test_with_several_environments_one_must_be_chosen(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    patch = {"spec": {"environments": [{"name": "production"}, {"name": "staging"}]}}
    kubectl(
        "patch",
        "project",
        project["id"].lower(),
        "--type=merge",
        "-p",
        json.dumps(patch),
        namespace=org.namespace,
    )
    answer = client("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    # The cache may be milliseconds behind kubectl.
    if answer.status == 200:
        answer = client("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    assert (answer.status, answer.fields) == (422, ["project_env"])
    assert '"staging"' in answer.json["message"]
    deployed = client.ok("PUT", f"{_path(project)}/deploy?project_env=staging", {"files": [MAIN]})
    assert [item["name"] for item in deployed["environments"] if "files" in item][-1] == "staging"


def test_the_variables_schema_is_read_set_and_patched(client: Client) -> None:
    path = f"{_path(make_project(client))}/variables"
    assert client.ok("GET", path) == {"type": "object", "properties": {}}
    region = {"type": "string", "enum": ["eu", "us"]}
    added = client.ok("PATCH", path, {"op": "add", "path": "/properties/region", "value": region})
    assert added["properties"] == {"region": region}
    client.ok("PATCH", path, {"op": "replace", "path": "/properties/region", "value": {"type": "integer"}})
    assert client.ok("PATCH", path, {"op": "remove", "path": "/properties/region"})["properties"] == {}
    assert client("PATCH", path, {"op": "remove", "path": "/properties/region"}).fields == ["path"]
    assert client("PATCH", path, {"op": "move", "path": "/properties/region"}).fields == ["op"]
    assert client("PATCH", path, {"op": "add", "path": "/properties/x"}).fields == ["value"]
    assert client("PATCH", path, {"op": "add", "path": "/properties/x", "value": {"type": 3}}).status == 422
    assert client("PATCH", path, {"op": "replace", "path": "", "value": 3}).status == 422
    limit = {"type": ["integer", "null"], "minimum": 1, "default": None, "enum": [1, 2.5, None]}
    wanted = {"type": "object", "properties": {"limit": limit}, "required": ["limit"]}
    assert client.ok("PUT", path, wanted) == wanted
    assert client.ok("GET", path) == wanted
    assert client("PUT", path, {"type": "string"}).status == 422
    assert client("PUT", path, {"type": "object", "description": "x" * 300_000}).status == 413
    bare = client.ok("PUT", path, {"type": "object"})
    assert bare == {"type": "object"}
    assert client.ok("PATCH", path, {"op": "add", "path": "/properties/a", "value": {}})["properties"] == {
        "a": {}
    }


def test_a_template_is_created_listed_updated_and_deleted(client: Client) -> None:
    project = make_project(client)
    system = make_system(client)
    environment = project["environments"][0]["id"]
    templates = f"{_path(project)}/connection-templates"
    body = {"systemId": system["id"], "name": "shop", "environmentId": environment}
    created = client.ok("POST", templates, body)
    assert created["id"] == system["id"]
    assert (created["name"], created["domain"], created["dynamic"]) == ("shop", "shop.example", False)
    for path in (templates, f"{_path(project)}/systems"):
        page = client.ok("GET", f"{path}?env_id={environment}")
        assert page == {"totalCount": 1, "items": [created]}
    assert client("POST", templates, body).status == 409
    one = f"{templates}/{created['connectionTemplateId']}"
    updated = client.ok("PUT", one, {"name": "store", "dynamic": True})
    assert (updated["name"], updated["dynamic"]) == ("store", True)
    assert client.ok("PUT", one, {})["name"] == "store"
    assert (
        client(
            "PUT", f"{_path(make_project(client))}/connection-templates/{created['connectionTemplateId']}", {}
        ).status
        == 404
    )
    assert client.ok("DELETE", one) == {}
    assert client("DELETE", one).status == 404
    assert client("GET", f"{templates}?env_id={new_id()}").status == 404
    assert client("POST", templates, {"systemId": new_id(), "name": "x"}).fields == ["systemId"]


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_a_system_is_added_to_an_environment_and_removed_by_its_name(client: Client, method: str) -> None:
    project = make_project(client)
    path = f"{_path(project)}/systems"
    body = {
        "systemId": make_system(client)["id"],
        "name": "shop",
        "environmentId": project["environments"][0]["id"],
    }
    added = client("POST", path, body)
    assert (added.status, added.raw) == (204, b"")
    assert client.ok("GET", path)["totalCount"] == 1
    assert client(method, path, {**body, "name": "other"}).status == 404
    assert client(method, path, body).status == 204
    assert client(method, path, body).status == 404
    assert client.ok("GET", path)["totalCount"] == 0


def test_a_linked_template_does_not_become_dynamic(client: Client) -> None:
    project, template = make_template(client)
    connection = {"name": "C", "credentials": []}
    client.ok(
        "POST",
        "/connections",
        {"connectionTemplateId": template["connectionTemplateId"], "connection": connection},
        status=201,
    )
    one = f"{_path(project)}/connection-templates/{template['connectionTemplateId']}"
    answer = client("PUT", one, {"dynamic": True})
    assert answer.status == 409
    assert "unlink" in answer.json["message"]


def test_deleting_a_project_takes_what_rest_made_for_it(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    client.ok("PUT", f"{_path(project)}/deploy", {"files": [MAIN]})
    assert client("DELETE", _path(project)).status == 204
    assert client("GET", _path(project)).status == 404
    gone = kubectl(
        "get", "tltmpl", template["connectionTemplateId"].lower(), namespace=org.namespace, check=False
    )
    assert gone.returncode == 1


def test_files_that_git_owns_are_not_replaced(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "git-project", "namespace": org.namespace},
        "spec": {"name": "From Git", "source": {"files": [MAIN]}},
    }
    kubectl("apply", "--server-side", "--field-manager=flux", "-f", "-", stdin=json.dumps(manifest))

    def known() -> list[str]:
        return [
            item["id"] for item in client.ok("GET", "/projects")["projects"] if item["name"] == "From Git"
        ]

    path = f"/projects/{eventually('the project known', known)[0]}"
    assert client.ok("GET", path)["currentFiles"]["files"] == [MAIN]
    refused = client("PUT", f"{path}/files", {"files": [OTHER], "labels": {}})
    assert refused.status == 409
    assert "flux" in refused.json["message"]
    # Deploying what Git has is fine: Git does not say which version runs.
    deployed = client.ok("PUT", f"{path}/deploy")
    assert deployed["environments"][0]["files"] == [MAIN]
