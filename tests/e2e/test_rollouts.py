"""What becomes of a deploy, on real pods: by the state of the environment, by what the version is like, and by the
interface. All cells of the table run at once, each with a project of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Rest, Tenant, answering, project, says
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

ATONCE = 6
MAIN = "main.py"
IMPORTS = "import os\nimport time\n"
# What `tieline check` does not find: it loads the code on the author's machine.
IN_A_POD = 'if "KUBERNETES_SERVICE_HOST" in os.environ:\n    '
CRASH = IN_A_POD + 'os.environ["DATABASE_URL"]\n'
GOOD = answering("new")
CRASHING = IMPORTS + CRASH + GOOD
WITHOUT_PACKAGE = IMPORTS + IN_A_POD + "import package_that_nobody_has\n" + GOOD
NEVER_READY = IMPORTS + "time.sleep(3600)\n" + GOOD
SECRET = {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "nowhere", "key": "url"}}}


@dataclass(frozen=True)
class Version:
    """Code to deploy, and how its rollout ends."""

    code: str
    reason: str = ""
    message: str = ""
    runtime: dict[str, Any] = field(default_factory=dict)


VERSIONS = {
    "good": Version(GOOD),
    "crash": Version(CRASHING, "Crashed", "main.py:4: KeyError: 'DATABASE_URL'"),
    "package": Version(WITHOUT_PACKAGE, "Crashed", "No module named 'package_that_nobody_has'"),
    "never": Version(NEVER_READY, "StartTimeout", "blocks at import"),
    "secret": Version(GOOD, "SecretVariableMissing", 'there is no Secret "nowhere"', {"env": [SECRET]}),
}
# The state before the deploy, and the state that a failed deploy leaves.
STATES = {
    "draft": "error",
    "running": "running",
    "suspended": "error",
    "error": "error",
    "under-way": "running",
}


@dataclass
class ByRest:
    """A project that REST made."""

    rest: Rest
    name: str
    path: str = ""

    def __post_init__(self) -> None:
        created = self.rest("POST", "/projects", {"name": self.name})
        assert created.status == 200, created
        self.path = f"/projects/{created.json['id']}"
        self.object = created.json["id"].lower()

    def environment(self) -> dict[str, Any]:
        found: dict[str, Any] = self.rest("GET", self.path).json["environments"][0]
        return found

    def set_runtime(self, version: Version) -> None:
        if version.runtime:
            body = {"env": [{"name": "DB", "valueFrom": SECRET["valueFrom"]}]}
            config = self.rest("PUT", f"/environments/{self.environment()['id']}/config", body)
            assert config.status == 204, config

    def begin(self, code: str) -> None:
        files = [{"filename": MAIN, "content": code}]
        answer = self.rest("PUT", f"{self.path}/deploy", {"files": files})
        assert answer.status == 200, answer

    def deploy(self, version: Version) -> dict[str, Any]:
        files = [{"filename": MAIN, "content": version.code}]
        answer = self.rest("PUT", f"{self.path}/deploy?wait=280", {"files": files}, timeout=300)
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json["environments"][0]
        return found

    def suspend(self) -> None:
        answer = self.rest("POST", f"{self.path}/suspend?environment=production&wait=120", timeout=150)
        assert answer.json["environments"][0]["status"] == "suspended", answer


class ByCommand(ByRest):
    """The same project, deployed by ``tieline``, whose exit code is the outcome."""

    folder: Path

    def tieline(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")}
        given = {
            "TIELINE_URL": self.rest.url,
            "TIELINE_ORGANISATION": self.rest.organisation,
            "TIELINE_TOKEN": self.rest.token,
            "TIELINE_CONFIG_FOLDER": str(self.folder / ".tieline-configuration"),
            "TIELINE_NO_KEYRING": "1",
        }
        return subprocess.run(
            [sys.executable, "-c", "from tieline.cli.main import main; main()", *arguments],
            cwd=self.folder,
            env=kept | given,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    def command(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        ended = self.tieline(*arguments, "--project", self.name)
        assert ended.returncode == code, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def deploy(self, version: Version) -> dict[str, Any]:
        (self.folder / MAIN).write_text(version.code)
        ended = self.command("deploy", "--force", "--output", "json", code=1 if version.reason else 0)
        assert version.message in ended.stderr
        return self.environment()


@dataclass
class ByKubectl:
    """A project that kubectl applies, and that follows its files."""

    tenant: Tenant
    name: str

    def environment(self) -> dict[str, Any]:
        found = self.tenant.get("project", self.name)
        if found.get("status", {}).get("observedGeneration", 0) < found["metadata"]["generation"]:
            return {}
        return self.tenant.environment(self.name)

    def apply(
        self, code: str, *, suspended: bool = False, version: str | None = "latest", **spec: Any
    ) -> None:
        environment = {"name": "production", "suspended": suspended}
        environments = [environment | ({"version": version} if version else {})]
        self.tenant.apply(project(code, name=self.name, environments=environments, **spec))

    def begin(self, code: str) -> None:
        self.apply(code)

    def ended(self) -> dict[str, Any]:
        def outcome() -> dict[str, Any] | None:
            found = self.environment()
            return found if found.get("rollout") in ("complete", "failed") else None

        return eventually(f"the outcome of {self.name}", outcome, within=280)

    def deploy(self, version: Version) -> dict[str, Any]:
        self.apply(version.code, runtime=version.runtime)
        found = self.ended()
        ready = self.tenant.kubectl(
            *(
                "wait",
                f"project/{self.name}",
                "--for=condition=Ready",
                f"--timeout={2 if version.reason else 60}s",
            ),
            namespace=self.tenant.namespace,
            check=False,
        )
        assert (ready.returncode == 0) is not bool(version.reason), ready
        rollout = {"state": found["rollout"], "reason": found.get("deployFailure")}
        return {**found, "rollout": rollout}

    def suspend(self) -> None:
        live = self.tenant.get("project", self.name)["spec"]["source"]["files"][0]["content"]
        self.apply(live, suspended=True)
        eventually("suspended", lambda: self.environment().get("status") == "suspended")


Deployed = ByRest | ByKubectl


def prepare(here: Deployed, begins: str) -> str:
    """Brings the environment into the state; returns what its webhook says then."""
    if begins == "draft":
        if isinstance(here, ByKubectl):
            here.apply(answering("old"), version=None)
        return ""
    here.begin(CRASHING if begins == "error" else answering("old"))
    expected = "error" if begins == "error" else "running"
    eventually(f"{here.name} {expected}", lambda: here.environment().get("status") == expected, within=280)
    if begins == "error":
        return ""
    if begins == "suspended":
        here.suspend()
        return ""
    if begins == "under-way":
        here.begin(NEVER_READY)
    return "old"


def play(here: Deployed, tenant: Tenant, begins: str, version: Version) -> None:
    """One cell of the table."""
    served = prepare(here, begins)
    if isinstance(here, ByRest):
        here.set_runtime(version)
        object_name = here.object
    else:
        object_name = here.name
    found = here.deploy(version)
    rollout = {key: value for key, value in found["rollout"].items() if value and key != "message"}
    if not version.reason:
        assert rollout == {"state": "complete"}
        eventually(f"{here.name} says new", lambda: says(found["publicUrl"]) == "new")

        def is_healthy() -> bool:
            shown = tenant.environment(object_name)
            return [one["name"] for one in shown.get("healthyVersions", ())][:1] == [shown["version"]]

        eventually(f"{here.name} is healthy", is_healthy)
        return
    assert rollout == {"state": "failed", "reason": version.reason}
    state = (
        "suspended" if (begins, version.reason) == ("suspended", "SecretVariableMissing") else STATES[begins]
    )
    now = eventually(
        f"{here.name} {state}",
        lambda: (
            (seen := tenant.environment(object_name))["status"] == state
            and version.message in seen.get("message", "")
            and seen
        ),
    )
    if served:
        assert says(now["publicUrl"]) == served
    else:
        assert "version" not in now, "nothing serves"
        ready = [pod for pod in tenant.pods(object_name) if _is_ready(pod)]
        assert ready == [], "what was suspended does not serve again"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _cells() -> Iterator[tuple[str, str, str]]:
    """Each state with each kind of version by REST; by the other two what is most likely to differ."""
    for begins in STATES:
        yield from ((begins, version, "rest") for version in ("good", "crash", "secret"))
    yield from ((begins, "never", "rest") for begins in ("running", "suspended"))
    # Commands find a missing package on the author's machine.
    yield ("running", "package", "rest")
    yield from ((begins, "crash", "kubectl") for begins in ("draft", "suspended", "error"))
    yield from [
        ("running", "good", "kubectl"),
        ("suspended", "good", "kubectl"),
        ("suspended", "secret", "kubectl"),
    ]
    yield from [
        ("suspended", "crash", "command"),
        ("draft", "good", "command"),
    ]


def test_every_deploy_ends_with_its_own_outcome(tenant: Tenant, rest: Rest, tmp_path: Path) -> None:
    def cell(begins: str, version: str, by: str) -> str:
        name = f"{begins}-{version}-{by}"
        try:
            if by == "kubectl":
                here: Deployed = ByKubectl(tenant, name)
            elif by == "command":
                here = ByCommand(rest, name)
                here.folder = tmp_path / name
                here.folder.mkdir()
            else:
                here = ByRest(rest, name)
            play(here, tenant, begins, VERSIONS[version])
            tenant.kubectl(
                *("delete", "project", name if by == "kubectl" else here.object, "--wait=false"),  # type: ignore[union-attr]
                namespace=tenant.namespace,
            )
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(ATONCE) as pool:
        ended = list(pool.map(lambda one: cell(*one), sorted(_cells(), key=lambda one: one[1] != "never")))
    failed = [one for one in ended if one]
    assert not failed, "\n".join(failed)


def test_rollback_and_promote_go_by_what_was_healthy(rest: Rest, tenant: Tenant, tmp_path: Path) -> None:
    here = ByCommand(rest, "healthy")
    here.folder = tmp_path
    here.rest("POST", f"{here.path}/environments", {"name": "staging"})

    def deploy(code: str, name: str, *, error: str = "") -> None:
        (tmp_path / MAIN).write_text(code)
        ended = here.command(
            *("deploy", "--environment", "staging", "--version-name", name), code=1 if error else 0
        )
        assert error in ended.stderr

    def staging() -> dict[str, Any]:
        found = rest("GET", here.path).json["environments"]
        return next(one for one in found if one["name"] == "staging")

    deploy(answering("one"), "good1")
    eventually("good1 is healthy", lambda: tenant.environment(here.object, "staging").get("healthyVersions"))
    deploy(CRASHING, "crashing", error="main.py:4: KeyError")
    refused = here.command("promote", "--from", "staging", "--to", "production", "--yes", code=1)
    assert "crashing does not serve in staging (good1 serves" in refused.stderr
    sync = {"sourceEnvName": "staging", "targetEnvName": "production"}
    by_rest = rest("POST", f"{here.path}/environments/sync", sync)
    assert (by_rest.status, "KeyError" in by_rest.json["message"]) == (409, True)
    shown = json.loads(here.command("versions", "--output", "json").stdout)
    assert [one["name"] for one in shown] == ["crashing", "good1"]
    rows = here.command("versions").stdout
    assert "staging" in rows
    assert (staging()["deployedVersion"]["name"], staging()["servingVersion"]["name"]) == (
        "crashing",
        "good1",
    )
    assert staging()["rollbackVersion"]["name"] == "good1"

    deploy(answering("two"), "good2")
    assert staging()["rollbackVersion"]["name"] == "good1"
    back = here.command("rollback", "--environment", "staging", "--yes", "--output", "json")
    assert json.loads(back.stdout)["version"]["name"] == "good1"
    none = here.command("rollback", "--environment", "staging", "--yes", code=4)
    assert "No version was healthy in staging before this one" in none.stderr
    here.command("promote", "--from", "staging", "--to", "production", "--yes")
    production = here.environment()
    # A node forwards to a new pod a moment after the pod is ready.
    eventually("production says one", lambda: says(production["publicUrl"]) == "one")
    here.command("suspend", "--environment", "staging", "--yes")
    assert staging()["status"] == "suspended"
    here.command("resume", "--environment", "staging", "--yes")
    assert (staging()["status"], staging()["servingVersion"]["name"]) == ("running", "good1")


def test_files_from_a_configmap_are_deployed_by_rest(tenant: Tenant, rest: Rest) -> None:
    tenant.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "code"},
            "data": {MAIN: answering("one")},
        },
        project("", name="from-map", source={"configMaps": [{"name": "code"}]}),
    )
    tenant.until("from-map", "running")
    # From now on REST says what runs.
    manifest = project("", name="from-map", source={"configMaps": [{"name": "code"}]}, environments=[])
    tenant.apply(manifest)
    tenant.until("from-map", "draft")
    identifier = tenant.get("project", "from-map")["metadata"]["labels"]["tieline.dev/id"]
    deployed = rest("PUT", f"/projects/{identifier}/deploy?wait=120", timeout=150)
    assert deployed.status == 200, deployed
    assert deployed.json["environments"][0]["rollout"] == {"state": "complete"}
    url = deployed.json["environments"][0]["publicUrl"]
    eventually("one", lambda: says(url) == "one")
