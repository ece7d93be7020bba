"""What GitOps tools make of our objects: Argo CD by its Lua script, Flux by the rules of kstatus."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from lupa import lua51

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import fast_yaml
from tieline_core.crds import definition
from tieline_core.project_files.config_maps import files_digest, version_name
from tieline_core.resources import KINDS
from tieline_core.resources.kinds import CustomResource
from tieline_operator.apply.conditions import full_status
from tieline_operator.apply.plan import Outcome, Plan, failed, in_progress, ready

GITOPS = ROOT / "deploy" / "gitops"
SCRIPT = (GITOPS / "argocd-health.lua").read_text()
NOW = datetime(2026, 11, 21, tzinfo=UTC)

_METADATA = {"name": "shop", "uid": "u", "creationTimestamp": "2026-11-21T00:00:00Z", "generation": 1}
NEVER_SEEN: dict[str, Any] = {"metadata": _METADATA, "spec": {}}


def new(kind: type[CustomResource]) -> dict[str, Any]:
    """An object as the API server returns it when it is created, with the definition's defaults."""
    (version,) = definition(kind)["spec"]["versions"]
    return {**NEVER_SEEN, "status": version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]}


def seen(outcome: Outcome, *, changed_since: bool = False) -> dict[str, Any]:
    """An object after the operator's visit, and perhaps a change of its spec after that."""
    obj = {**NEVER_SEEN, "status": full_status(NEVER_SEEN, Plan(outcome=outcome), NOW)}
    return {**obj, "metadata": {**NEVER_SEEN["metadata"], "generation": 2}} if changed_since else obj


WORKS = seen(ready("Valid", "It works"))
AT_WORK = seen(in_progress("RollingOut", "It is being rolled out"))
BROKEN = seen(failed("SystemNotFound", "Create the system"))
OUTDATED = seen(ready("Valid", "It works"), changed_since=True)
OUTDATED_AND_BROKEN = seen(failed("SystemNotFound", "Create the system"), changed_since=True)


def argocd(obj: dict[str, Any]) -> tuple[str, str]:
    """Health and message as Argo CD (which has Lua 5.1) gets them from the script."""
    lua = lua51.LuaRuntime(register_eval=False)
    lua.globals().obj = lua.table_from(obj, recursive=True)
    health = lua.execute(SCRIPT)
    return health["status"], health["message"]


def kstatus(obj: dict[str, Any]) -> str:
    """The status by sigs.k8s.io/cli-utils/pkg/kstatus: its generic rules in their order, then Ready."""
    status = obj.get("status", {})
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != obj["metadata"]["generation"]:
        return "InProgress"
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    if conditions.get("Ready") in {"False", "Unknown"}:
        return "InProgress"
    return "Current"


@pytest.mark.parametrize(
    ("obj", "health", "told"),
    [
        (NEVER_SEEN, "Progressing", "not looked at it yet"),
        (WORKS, "Healthy", "It works"),
        (AT_WORK, "Progressing", "It is being rolled out"),
        (BROKEN, "Degraded", "Create the system"),
        (OUTDATED, "Progressing", "newest change"),
        (OUTDATED_AND_BROKEN, "Progressing", "newest change"),
    ],
    ids=["never seen", "works", "at work", "broken", "outdated", "outdated and broken"],
)
def test_argo_cd_shows_what_the_operator_says_of_the_newest_spec(
    obj: dict[str, Any], health: str, told: str
) -> None:
    status, message = argocd(obj)
    assert status == health
    assert told in message


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (WORKS, "Current"),
        (AT_WORK, "InProgress"),
        (BROKEN, "Failed"),
        (OUTDATED, "InProgress"),
        (OUTDATED_AND_BROKEN, "InProgress"),
        (
            {**WORKS, "metadata": {"generation": 1, "deletionTimestamp": "2026-11-21T00:00:00Z"}},
            "Terminating",
        ),
    ],
    ids=["works", "at work", "broken", "outdated", "outdated and broken", "being deleted"],
)
def test_kstatus_finds_the_same(obj: dict[str, Any], status: str) -> None:
    assert kstatus(obj) == status


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_new_object_has_not_settled(kind: type[CustomResource]) -> None:
    """kstatus takes an object without a status for one that has."""
    created = new(kind)
    assert kstatus(created) == "InProgress"
    assert argocd(created)[0] == "Progressing"
    read = kind.__annotations__["status"].model_validate(created["status"])
    assert (read.observed_generation, read.conditions) == (-1, [])


def test_argo_cds_settings_add_the_script_and_replace_nothing() -> None:
    """Keys of a merge patch replace those of the same name, so each kind has one of its own."""
    settings = fast_yaml.load((GITOPS / "argocd-cm.yaml").read_text())
    keys = {f"resource.customizations.health.tieline.dev_{kind.kind_info.name}" for kind in KINDS}
    assert settings["data"].keys() == keys
    assert {script.strip() for script in settings["data"].values()} == {SCRIPT.strip()}


def test_the_examples_production_names_the_version_of_the_code_beside_it() -> None:
    project = ROOT / "examples" / "gitops" / "project"
    code = {"main.py": (project / "integration" / "main.py").read_bytes()}
    (document,) = fast_yaml.load_all((project / "project.yaml").read_text())
    staging, production = document["spec"]["environments"]
    assert staging == {"name": "staging", "version": "latest"}
    assert production["version"] == version_name("order-sync", files_digest(code), {})
