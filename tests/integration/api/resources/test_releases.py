"""Releases by REST: who deployed what, what it changed, and what became of it."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import MAIN, make_project, stored

OTHER = {"filename": "prices.py", "content": "PRICE = 1\n"}
TIMES = {"deployedAt": "2026-11-21T10:00:00Z", "servedFrom": "2026-11-21T10:00:20Z"}


def deployed(client: Client, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The version that a deploy has made or chosen."""
    found: dict[str, Any] = client.ok("PUT", path, body)["environments"][0]["deployedVersion"]
    return found


def reports(kubectl: Kubectl, org: Organisation, project: dict[str, Any], *releases: dict[str, Any]) -> None:
    """Writes the releases that the operator writes, the newest first."""
    found = stored(kubectl, org, "project", project["id"])
    environment = {
        "name": "production",
        "id": project["environments"][0]["id"],
        "status": "running",
        "createdAt": TIMES["deployedAt"],
        "updatedAt": TIMES["deployedAt"],
        "releases": list(releases),
    }
    status = {"observedGeneration": found["metadata"]["generation"], "environments": [environment]}
    kubectl(
        "patch",
        "projects.tieline.dev",
        found["metadata"]["name"],
        "--subresource=status",
        "--type=merge",
        f"-p={json.dumps({'status': status})}",
        namespace=org.namespace,
    )


def note(kubectl: Kubectl, org: Organisation, project: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stored(kubectl, org, "project", project["id"])["spec"]["environments"][0][
        "deployNote"
    ]
    return found


def release(
    kubectl: Kubectl, org: Organisation, number: int, version: dict[str, Any], **more: Any
) -> dict[str, Any]:
    spec = stored(kubectl, org, "projectversion", version["id"])["spec"]
    name = version["id"].lower()
    return {
        "number": number,
        "version": name,
        "digest": spec["digest"],
        "rollout": "complete",
        **TIMES,
        **more,
    }


def test_a_deploy_says_who_made_it_and_why(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project = make_project(client)
    path = f"/projects/{project['id']}"
    first = deployed(
        client, f"{path}/deploy", {"files": [MAIN], "message": "first\nof all", "revision": "6d3c"}
    )
    made = note(kubectl, org, project)
    assert (made["version"], made["message"], made["revision"]) == (first["id"].lower(), "first", "6d3c")
    assert made["by"]

    deployed(client, f"{path}/deploy", {"files": [MAIN, OTHER], "versionDescription": "other prices"})
    assert note(kubectl, org, project)["message"] == "other prices"
    deployed(client, f"{path}/versions/{first['id']}/deploy")
    back = note(kubectl, org, project)
    assert back["id"] != made["id"]
    assert not {"message", "revision"} & back.keys()
    assert client("PUT", f"{path}/deploy", {"message": "x" * 257}).fields == ["message"]


def test_releases_say_what_changed_and_how_it_ended(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    path = f"/projects/{project['id']}"
    first = deployed(client, f"{path}/deploy", {"files": [MAIN]})
    second = deployed(client, f"{path}/deploy", {"files": [MAIN, OTHER]})
    where = f"{path}/environments/{project['environments'][0]['id']}/releases"
    assert client.ok("GET", where)["items"] == []
    assert client("GET", f"{where}/latest").status == 404
    failure = {"rollout": "failed", "reason": "Crashed", "failure": "KeyError: 'X', main.py:4"}
    newest = release(kubectl, org, 2, second, **failure, by="ann")
    del newest["servedFrom"]
    reports(kubectl, org, project, newest, release(kubectl, org, 1, first, healthy=True, message="m"))

    listed = eventually("the releases", lambda: client.ok("GET", where)["items"])
    assert [(one["number"], one["outcome"], one.get("by")) for one in listed] == [
        (2, "failed", "ann"),
        (1, "replaced", None),
    ]
    assert listed[0]["failure"] == {"reason": "Crashed", "message": "KeyError: 'X', main.py:4"}
    assert (listed[0]["runs"], listed[0]["failedRuns"]) == (0, 0)
    shown = client.ok("GET", f"{where}/latest")
    assert client.ok("GET", f"{where}/2") == shown
    assert shown["previous"] == 1
    (file,) = shown["changes"]["files"]
    assert (file["filename"], file["change"]) == ("prices.py", "added")
    assert "PRICE = 1" in file["diff"]
    assert "changes" not in client.ok("GET", f"{where}/1")


def test_a_list_of_releases_has_pages_and_refuses_what_is_none(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    path = f"/projects/{project['id']}"
    first = deployed(client, f"{path}/deploy", {"files": [MAIN]})
    where = f"{path}/environments/{project['environments'][0]['id']}/releases"
    reports(kubectl, org, project, *(release(kubectl, org, number, first) for number in (12, 11, 10)))
    page = eventually("the releases", lambda: client.ok("GET", f"{where}?first=2") or None)
    assert [one["number"] for one in page["items"]] == [12, 11]
    rest = client.ok("GET", f"{where}?first=2&after={page['next']}")
    assert [one["number"] for one in rest["items"]] == [10]
    for wrong in ("9", "0", "-1", "x", "1" * 30, "%C2%B2"):
        assert client("GET", f"{where}/{wrong}").status == 404, wrong
    assert client("GET", f"{where}?first=201").status == 422
    assert client("GET", f"{where}?after=x").status == 400
