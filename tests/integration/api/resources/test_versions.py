"""Versions by REST: made without a deploy, compared, and files that are checked or changed one by one."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import MAIN, make_project, make_template, stored

NOTES = {"filename": "notes.txt", "content": "one\ntwo\n"}
CODE = """from tieline import Context, Integration

integration = Integration()


@integration.webhook("orders")
async def orders(ctx: Context) -> None:
    await ctx.fetch("shop", "/orders")
"""


def at(project: dict[str, Any]) -> str:
    return f"/projects/{project['id']}"


def add(client: Client, project: dict[str, Any], name: str, files: list[Any], **more: Any) -> dict[str, Any]:
    """A version that is not deployed."""
    made: dict[str, Any] = client.ok(
        "POST", f"{at(project)}/versions", {"name": name, "files": files, **more}
    )
    return made


def test_a_version_is_made_without_a_deploy_and_deployed_later(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    made = add(client, project, "First", [MAIN], description="Prints", labels={"team": "ops"})
    assert (made["name"], made["description"], made["labels"]) == ("First", "Prints", {"team": "ops"})
    assert made["state"] == "draft"
    shown = client.ok("GET", at(project))
    assert shown["currentFiles"] == {"files": [], "labels": {}}
    assert shown["environments"][0].get("deployedVersion") is None
    assert [one["id"] for one in client.ok("GET", f"{at(project)}/versions")["items"]] == [made["id"]]
    files = client.ok("GET", f"{at(project)}/versions/{made['id']}/files")
    assert files == {"files": [MAIN], "labels": {"team": "ops"}}
    version = stored(kubectl, org, "projectversion", made["id"])
    assert version["metadata"]["ownerReferences"][0]["name"] == project["id"].lower()
    deployed = client.ok("PUT", f"{at(project)}/versions/{made['id']}/deploy")
    assert deployed["environments"][0]["deployedVersion"] == {
        name: made[name] for name in ("id", "name", "state", "createdAt", "createdBy")
    }


def test_a_version_without_labels_has_the_current_ones(client: Client) -> None:
    project = make_project(client)
    client.ok("PUT", f"{at(project)}/files", {"files": [], "labels": {"team": "ops"}})
    assert add(client, project, "First", [MAIN])["labels"] == {"team": "ops"}
    assert add(client, project, "Second", [MAIN], labels={})["labels"] == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"files": [MAIN]}, "name"),
        ({"name": " ", "files": [MAIN]}, "name"),
        ({"name": "A"}, "files"),
        ({"name": "A", "files": []}, "files"),
        ({"name": "A", "files": [{**MAIN, "filename": "../main.py"}]}, "files[../main.py]"),
        ({"name": "A", "files": [MAIN, MAIN]}, "files[main.py]"),
        ({"name": "A", "files": [MAIN], "labels": {"1": "x"}}, "files"),
    ],
)
def test_a_version_that_cannot_be_kept_is_refused(client: Client, body: dict[str, Any], field: str) -> None:
    project = make_project(client)
    refused = client("POST", f"{at(project)}/versions", body)
    assert (refused.status, refused.fields) == (422, [field])
    assert client.ok("GET", f"{at(project)}/versions")["totalCount"] == 0


def test_what_differs_between_two_versions_is_told_file_by_file(client: Client) -> None:
    project = make_project(client)
    first = add(client, project, "First", [MAIN, NOTES], labels={"a": "1", "b": "1"})
    changed = {**NOTES, "content": "one\n2\n"}
    second = add(
        client, project, "Second", [changed, {"filename": "new.txt", "content": "new"}], labels={"b": "2"}
    )
    found = client.ok("GET", f"{at(project)}/versions/{second['id']}/diff?from={first['id'].lower()}")
    assert found["from"] == {"id": first["id"], "name": "First"}
    assert found["to"] == {"id": second["id"], "name": "Second"}
    by_name = {one["filename"]: one for one in found["files"]}
    assert {name: one["change"] for name, one in by_name.items()} == {
        "main.py": "removed",
        "new.txt": "added",
        "notes.txt": "changed",
    }
    assert by_name["notes.txt"]["diff"].endswith("@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    assert by_name["new.txt"]["diff"].endswith("+new\n\\ No newline at end of file\n")
    assert found["labels"] == [
        {"key": "a", "before": "1"},
        {"key": "b", "before": "1", "after": "2"},
    ]
    assert client.ok("GET", f"{at(project)}/versions/{second['id']}/diff?from={second['id']}")["files"] == []


def test_without_another_version_it_is_compared_with_the_one_before(client: Client) -> None:
    project = make_project(client)
    first = add(client, project, "First", [MAIN])
    found = client.ok("GET", f"{at(project)}/versions/{first['id']}/diff")
    assert "from" not in found
    assert [(one["filename"], one["change"]) for one in found["files"]] == [("main.py", "added")]
    second = add(client, project, "Second", [MAIN, NOTES])
    names = [version["id"] for version in client.ok("GET", f"{at(project)}/versions")["items"]]
    assert set(names) == {first["id"], second["id"]}
    found = client.ok("GET", f"{at(project)}/versions/{names[0]}/diff")
    assert found["from"]["id"] == names[1]


def test_versions_of_another_project_are_not_compared(client: Client) -> None:
    project = make_project(client)
    mine = add(client, project, "Mine", [MAIN])
    other = add(client, make_project(client), "Other", [MAIN])
    assert client("GET", f"{at(project)}/versions/{other['id']}/diff").status == 404
    assert client("GET", f"{at(project)}/versions/{mine['id']}/diff?from={other['id']}").status == 404
    assert client("GET", f"{at(project)}/versions/{mine['id']}/diff?from=x").status == 404
    misspelt = client("GET", f"{at(project)}/versions/{mine['id']}/diff?form={other['id']}")
    assert 'did you mean \\"from\\"' in misspelt.headers["Warning"]


def test_files_that_are_no_text_differ_without_a_diff(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    first = add(client, project, "First", [MAIN, {"filename": "logo.bin", "content": "text"}])
    name = f"binary-{project['id'].lower()}"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": org.namespace},
        "binaryData": {
            "logo.bin": base64.b64encode(b"\x00\xff").decode(),
            "main.py": base64.b64encode(MAIN["content"].encode()).decode(),
        },
        "immutable": True,
    }
    version = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "ProjectVersion",
        "metadata": {"name": name, "namespace": org.namespace},
        "spec": {
            "projectRef": {"name": project["id"].lower()},
            "digest": "0" * 64,
            "configMaps": [{"name": name}],
        },
    }
    items = [config_map, version]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def known() -> Any:
        page = client.ok("GET", f"{at(project)}/versions")
        return page["items"] if page["totalCount"] == 2 else None

    listed = eventually("the version in REST", known)
    binary = next(one["id"] for one in listed if one["id"] != first["id"])
    found = client.ok("GET", f"{at(project)}/versions/{binary}/diff?from={first['id']}")
    assert found["files"] == [
        {"filename": "logo.bin", "change": "changed", "binary": True, "truncated": False}
    ]


def test_a_check_finds_what_a_deploy_would_refuse(client: Client) -> None:
    project, _ = make_template(client, name="crm")
    broken = {"files": [{**MAIN, "content": "def ("}, {"filename": "a/../b", "content": ""}]}
    found = client.ok("PUT", f"{at(project)}/validate", broken)
    assert (found["project_id"], found["environment"]) == (project["id"], "production")
    validation = found["validation"]
    assert validation["success"] is False
    assert isinstance(validation["duration"], int)
    assert {one["filename"] for one in found["findings"]} == {"main.py", "a/../b"}
    assert all(one["message"] in validation["output"] for one in found["findings"])
    assert validation["error"].split(";")[0] in validation["output"]
    refused = client("PUT", f"{at(project)}/deploy", broken)
    assert refused.status == 422
    assert sorted(item["message"] for item in refused.json["fields"]) == sorted(
        one["message"] for one in found["findings"] if one["severity"] == "error"
    )
    # Templates are those of the environment.
    lacking = client.ok("PUT", f"{at(project)}/validate", {"files": [{**MAIN, "content": CODE}]})
    assert (lacking["validation"]["success"], lacking["findings"][0]["line"]) == (False, 8)
    make_template(client, project=project, name="shop")
    good = client.ok("PUT", f"{at(project)}/validate", {"files": [{**MAIN, "content": CODE}]})
    assert (good["validation"]["success"], good["validation"]["error"], good["findings"]) == (True, "", [])
    assert client.ok("GET", f"{at(project)}/versions")["totalCount"] == 0
    assert client.ok("GET", f"{at(project)}/files")["files"] == [], "nothing is stored"


def test_without_files_the_current_ones_are_checked(client: Client) -> None:
    project = make_project(client)
    assert client.ok("PUT", f"{at(project)}/validate")["validation"]["success"] is False, "no main.py"
    client.ok("PUT", f"{at(project)}/files", {"files": [MAIN], "labels": {}})
    assert client.ok("PUT", f"{at(project)}/validate")["validation"]["success"] is True
    client.ok("POST", f"{at(project)}/environments", {"name": "staging"})
    assert client("PUT", f"{at(project)}/validate").fields == ["project_env"]
    named = client.ok("PUT", f"{at(project)}/validate?project_env=staging")
    assert named["environment"] == "staging"


def test_only_the_files_that_are_named_are_changed(client: Client) -> None:
    project = make_project(client)
    client.ok("PUT", f"{at(project)}/files", {"files": [MAIN, NOTES], "labels": {"a": "1", "b": "1"}})

    def patch(body: dict[str, Any]) -> dict[str, Any]:
        client.ok("PATCH", f"{at(project)}/files", body, status=204)
        found: dict[str, Any] = client.ok("GET", f"{at(project)}/files")
        return found

    new = {"filename": "shop/orders.py", "content": "print('é')\n"}
    changed = {**NOTES, "content": ""}
    after = patch({"files": [changed, new]})
    assert after == {"files": [MAIN, changed, new], "labels": {"a": "1", "b": "1"}}
    after = patch({"files": [{"filename": "notes.txt", "content": None}], "labels": {"a": None, "c": "3"}})
    assert after == {"files": [MAIN, new], "labels": {"b": "1", "c": "3"}}
    assert patch({"files": [{"filename": "gone.py", "content": None}]}) == after, "removing twice is no error"
    assert patch({}) == after
    assert client.ok("GET", f"{at(project)}/versions")["totalCount"] == 0


def test_changes_of_files_at_the_same_time_are_all_kept(client: Client) -> None:
    project = make_project(client)

    def patch(number: int) -> int:
        body = {"files": [{"filename": f"f{number}.txt", "content": str(number)}]}
        return client("PATCH", f"{at(project)}/files", body).status

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(patch, range(3))) == [204, 204, 204]
    files = client.ok("GET", f"{at(project)}/files")["files"]
    assert files == [{"filename": f"f{number}.txt", "content": str(number)} for number in range(3)]


@pytest.mark.parametrize(
    ("files", "status", "fields"),
    [
        ([{"filename": "a.py"}], 422, ["files[0].content"]),
        ([{"filename": "/a.py", "content": ""}], 422, ["files[/a.py]"]),
        ([MAIN, MAIN], 422, ["files"]),
        ([{"filename": "main.py/a", "content": ""}], 422, ["files[main.py]"]),
        ([{"filename": "big.txt", "content": "x" * (1024 * 1024 + 1)}], 413, []),
    ],
    ids=["no content", "absolute", "twice", "a folder", "too large"],
)
def test_changes_that_cannot_be_kept_are_refused(
    client: Client, files: list[Any], status: int, fields: list[str]
) -> None:
    project = make_project(client)
    client.ok("PUT", f"{at(project)}/files", {"files": [MAIN], "labels": {}})
    refused = client("PATCH", f"{at(project)}/files", {"files": files})
    assert (refused.status, refused.fields) == (status, fields)
    assert client.ok("GET", f"{at(project)}/files")["files"] == [MAIN]


def test_files_from_git_are_not_changed(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project = make_project(client)
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": project["id"].lower(), "namespace": org.namespace},
        "spec": {"source": {"files": [MAIN]}},
    }
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))
    refused = client("PATCH", f"{at(project)}/files", {"files": [NOTES]})
    assert (refused.status, refused.json["managers"]) == (409, ["git"])
    old = client("GET", at(project)).headers["ETag"]
    client.ok("PUT", at(project), {"name": "Renamed"})
    assert client("PATCH", f"{at(project)}/files", {"files": []}, If_Match=old).status == 412
