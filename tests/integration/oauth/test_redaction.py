"""Nothing secret is anywhere but in Secrets: every kind of credential used in full, then everything searched."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.harness.clients.secret_leaks import leaks
from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.identity.keycloak import Keycloak
from tests.harness.processes.echo_server import Echo
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.pods import account_token
from tests.integration.oauth.full_run import CODE, FullRun, Listening
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.identity.names import TOKENS_LABEL

pytestmark = pytest.mark.cluster

REACHABLE = {"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"}
LOUD = {"TIELINE_LOG_LEVEL": "DEBUG", **REACHABLE}


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as running:
        yield running


@pytest.fixture
def org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture
def loud_api(api_kubeconfig: Path, tmp_path: Path) -> Iterator[RunningApi]:
    """An API that logs all it can."""
    running = RunningApi(kubeconfig=api_kubeconfig, log=tmp_path / "api.log", variables=LOUD)
    with running:
        yield running


@pytest.fixture
def loud_operator(kubeconfig: Path, org: Organisation, tmp_path: Path) -> Iterator[RunningOperator]:
    """An operator that logs all it can."""
    running = RunningOperator(
        kubeconfig=kubeconfig, namespaces=(org.namespace,), log=tmp_path / "operator.log", variables=LOUD
    )
    with running:
        yield running


def test_no_secret_is_anywhere_but_in_secrets(
    kubectl: Kubectl,
    org: Organisation,
    keycloak: Keycloak,
    echo: Echo,
    loud_api: RunningApi,
    loud_operator: RunningOperator,
    token_for: Callable[..., str],
    tmp_path: Path,
) -> None:
    caller = Listening(loud_api.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)
    run = FullRun(caller=caller, keycloak=keycloak, external=echo.url)
    person = keycloak.person()
    run.make()
    connection = run.log_in(person, lambda: _verifier(kubectl, org))
    run.nonsense()
    files = [{"filename": "main.py", "content": CODE}]
    caller.ok("PUT", f"/projects/{run.project['id']}/deploy", {"files": files})

    def remembered() -> None:
        for name, value in _tokens(kubectl, org):
            run.secrets[f"{name} {len(run.secrets)}"] = value

    eventually("tokens of three connections", lambda: len(_tokens(kubectl, org)) >= 5)
    remembered()
    run.secrets["token of the pod"] = pod_token = account_token(kubectl, org, run.project)
    run.secrets["token of the caller"] = caller.token or ""
    runtime = RunningRuntime(
        folder=tmp_path / "pod",
        code=CODE,
        token=pod_token,
        variables={**LOUD, "TIELINE_API_URL": loud_api.internal_url},
    )
    with runtime:
        for template in run.templates:
            for path in ("/orders", f"/once/{template}"):
                http("POST", f"{runtime.url}/tell?{urlencode({'template': template, 'path': path})}")
                remembered()  # those that have just been sent live for six seconds
            http("POST", f"{runtime.url}/fail?{urlencode({'template': template})}")
        remembered()
        # Long enough for a refresh of what lives for six seconds, and for one that is refused.
        time.sleep(6)
        remembered()
        assert run.application is not None
        keycloak.end_sessions(person, run.application)
        eventually(
            "the refusal told",
            lambda: caller.ok("GET", f"/connections/{connection}")["credentials"][0]["credential"].get(
                "errors"
            ),
        )
        metrics = runtime.metrics()
    remembered()
    run.secrets |= {f"signed token {number}": token for number, token in enumerate(_signed(echo))}
    _read_everything(caller, run)
    places = _cluster(kubectl, org)
    places |= {f"answer of {what}": _whole(answer) for what, answer in caller.answers}
    places |= {"metrics of the runtime": metrics, "metrics of the operator": loud_operator.metrics()}
    places["metrics of the API"] = http("GET", f"{loud_api.metrics_url}/metrics").body
    for file in (loud_api.log, loud_operator.log, runtime.log, runtime.folder / "termination"):
        places[f"file {file.name}"] = file.read_bytes() if file.exists() else b""
    for file in tmp_path.glob("traces.db*"):
        places[f"file {file.name}"] = file.read_bytes()

    _has_happened(run, echo, places, kubectl, org)
    found = leaks(run.secrets, places)
    assert not found, "\n".join(map(str, found))


def _has_happened(
    run: FullRun, echo: Echo, places: dict[str, Any], kubectl: Kubectl, org: Organisation
) -> None:
    """The search is one that finds: what is secret is in Secrets, was sent, and what was said was written."""
    stored = {leak.secret for leak in leaks(run.secrets, {"Secrets": json.dumps(_secrets(kubectl, org))})}
    for name in ("api-key in a header", "password of basic-auth", "hmac key", "jwt key", "code", "state"):
        assert name in stored, f"{name} is in no Secret"
    assert any(name.startswith("refreshToken") for name in stored)
    heard = {leak.secret for leak in leaks(run.secrets, {"the system": "\n".join(echo.heard)})}
    for name in (
        "api-key in a header",
        "query key",
        "password of basic-auth",
        "pin secret",
        "access token given",
        "consumer secret",
    ):
        assert name in heard, f"{name} was not sent"
    assert any(name.startswith("accessToken") for name in heard), "no token of Keycloak was sent"
    assert any(name.startswith("signed token") for name in heard), "no JWT was sent"
    assert b'"operation":"internalToken"' in places["file api.log"], "no rejected token came back to the API"
    assert b"It said" in places["file log"]
    assert b"RuntimeError" in places["file log"]
    assert b"***" in places["file log"]
    assert any("/traces/" in place for place in places), "no trace was read"
    assert "Warning" in places["events"]


def _signed(echo: Echo) -> set[str]:
    """The JWTs that the runtime has signed itself."""
    said = [json.loads(text) for text in echo.heard if "/jwt" in text]
    return {one["headers"]["Authorization"].removeprefix("Bearer ") for one in said}


def _read_everything(caller: Listening, run: FullRun) -> None:
    """Every GET that there is for what the run has made."""
    project = f"/projects/{run.project['id']}"
    environment = run.project["environments"][0]["id"]
    paths = ["/systems", "/connections", "/projects", "/users", project]
    paths += [f"{project}/{part}" for part in ("files", "variables", "versions", "systems", "connections")]
    paths += [f"{project}/connection-templates", f"{project}/logs", f"{project}/traces"]
    paths += [f"/environments/{environment}/activations"]
    paths += [f"/systems/{identifier}" for identifier in run.systems]
    paths += [f"/connections/{identifier}" for identifier in run.connections]
    for path in paths:
        caller("GET", path)
    listed = eventually("traces", lambda: caller("GET", f"{project}/traces").json.get("items"))
    for trace in {item["traceId"] for item in listed}:
        caller.ok("GET", f"{project}/traces/{trace}")


def _cluster(kubectl: Kubectl, org: Organisation) -> dict[str, str]:
    """Every object of the namespace that is no Secret, with its managed fields, by its resource."""
    names = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").stdout.split()
    wanted = [name for name in names if name != "secrets" and not name.startswith("events.events")]
    found: dict[str, str] = {}
    text = kubectl(
        "get",
        ",".join(wanted),
        "-o",
        "json",
        "--show-managed-fields",
        "--ignore-not-found",
        namespace=org.namespace,
    ).stdout
    for obj in json.loads(text)["items"]:
        kind = f"{obj['kind'].lower()}s"
        found[kind] = found.get(kind, "") + json.dumps(obj, ensure_ascii=False)
    assert {"connections", "systems", "deployments", "events", "configmaps"} <= found.keys()
    assert "pods" in found, "there is no pod whose spec could tell anything"
    return found


def _secrets(kubectl: Kubectl, org: Organisation, *, tokens: bool = False) -> list[dict[str, Any]]:
    chosen = ["-l", f"{TOKENS_LABEL}=true"] if tokens else []
    text = kubectl("get", "secrets", *chosen, "-o", "json", namespace=org.namespace).stdout
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def _tokens(kubectl: Kubectl, org: Organisation) -> list[tuple[str, str]]:
    """All access and refresh tokens that are stored now."""
    data = [one.get("data") or {} for one in _secrets(kubectl, org, tokens=True)]
    return [
        (name, base64.b64decode(values[name]).decode())
        for values in data
        for name in ("accessToken", "refreshToken")
        if name in values
    ]


def _verifier(kubectl: Kubectl, org: Organisation) -> str:
    """The PKCE verifier of the authorisation under way."""
    kept = [one for one in _secrets(kubectl, org) if one["type"] == "tieline.dev/oauth-state"]
    return base64.b64decode(kept[0]["data"]["code_verifier"]).decode()


def _whole(answer: Any) -> bytes:
    return f"{answer.headers}\n".encode() + answer.raw
