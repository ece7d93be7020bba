"""Tokens of configured issuers and API keys, by REST on a real API server with its own RBAC."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tieline_api import create_key
from tieline_api.auth.api_keys import manifest, new_key
from tieline_api.handlers import OPERATIONS
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

ISSUER = "https://login.example"
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def trusting(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts an issuer whose keys are in a file."""
    folder = tmp_path_factory.mktemp("issuers")
    key = jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "one"}]}))
    issuer = {
        "issuer": ISSUER,
        "jwksFile": str(folder / "jwks.json"),
        "audiences": ["tieline"],
        "organisationsClaim": "organisations",
        "prefix": "login:",
    }
    (folder / "issuers.json").write_text(json.dumps([issuer]))
    with Server(api_kubeconfig, issuers_file=str(folder / "issuers.json")) as started:
        yield started


def _token(org: Organisation, **claims: Any) -> str:
    payload = {
        "iss": ISSUER, "aud": "tieline", "sub": "ann", "exp": time.time() + 300,
        "groups": ["ops"], "organisations": [org.id], **claims,
    }  # fmt: skip
    return jwt.encode(payload, PRIVATE, algorithm="RS256", headers={"kid": "one"})


def test_a_token_of_a_configured_issuer_has_the_roles_of_its_groups(
    trusting: Server, kubectl: Kubectl, org: Organisation, client: Client
) -> None:
    ann = Client(trusting.url, _token(org), org.id)
    assert ann("GET", "/projects").status == 404, "no member yet"
    kubectl(
        "create", "rolebinding", "ops", "--clusterrole=tieline-viewer", "--group=login:ops",
        namespace=org.namespace,
    )  # fmt: skip
    ann.until_known()
    assert ann("POST", "/projects", {"name": "x"}).status == 403
    outside = Client(trusting.url, _token(org, organisations=[new_id()]), org.id)
    assert outside("GET", "/projects").status == 404, "its token is not good for this organisation"
    assert Client(trusting.url, _token(org, aud="others"), org.id)("GET", "/projects").status == 401
    cluster = Client(trusting.url, client.token, org.id)
    assert cluster("GET", "/projects").status == 200, "the cluster's own tokens go on"


def test_a_token_of_a_configured_issuer_is_told_whose_it_is_and_what_it_reaches(
    trusting: Server, kubectl: Kubectl, org: Organisation, other_org: Organisation
) -> None:
    for namespace in (org.namespace, other_org.namespace):
        kubectl(
            "create", "rolebinding", "readers", "--clusterrole=tieline-viewer", "--group=login:readers",
            namespace=namespace,
        )  # fmt: skip
    token = _token(org, sub="ben", name="Ben\n B.", groups=["readers"])
    ben = Client(trusting.url, token, org.id)
    ben.until_known()
    assert ben.at("/api/v2/me").json == {
        "id": "login:ben",
        "name": "Ben B.",
        "kind": "user",
        "groups": ["login:readers", "system:authenticated"],
        "organisations": [
            {"id": org.id, "name": org.namespace, "namespace": org.namespace, "role": "viewer"}
        ],
    }, "the token is good for this organisation, and not for the other"
    outside = Client(trusting.url, _token(org, groups=["readers"], organisations=[new_id()]), org.id)
    assert outside.at("/api/v2/me").json["organisations"] == []


def _create_key(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tieline_api.main", "create-key", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )


def test_a_key_is_created_by_command_used_and_revoked(
    server: Server, kubectl: Kubectl, kubeconfig: Path, org: Organisation
) -> None:
    def secrets() -> set[str]:
        selected = ("--field-selector=type=tieline.dev/api-key", "-o", "name")
        return set(kubectl("get", "secret", *selected, namespace=org.namespace).stdout.split())

    before = secrets()
    made = _create_key(kubeconfig, "--organisation", org.id, "--user", "ci", "--expires-in", "90d")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert key.count("_") >= 2
    assert key not in made.stderr
    user = f"tieline:api-key:{org.id.lower()}:ci"
    assert f"--user={user}" in made.stderr
    kubectl(
        "create",
        "rolebinding",
        "ci",
        "--clusterrole=tieline-editor",
        f"--user={user}",
        namespace=org.namespace,
    )
    ci = Client(server.url, None, org.id, {"X-API-Key": key})
    eventually("the key known", lambda: ci("GET", "/systems").status == 200)
    assert ci("POST", "/projects", {"name": "By key"}).status == 200
    assert ci("POST", "/systems", {}).status == 403
    bearer = Client(server.url, key, org.id)
    assert bearer("GET", "/systems").status == 200
    assert bearer("GET", "/projects").status == 401, "as a bearer value for list-systems (and import) only"
    (secret,) = secrets() - before
    assert key not in kubectl("get", secret, "-o", "yaml", namespace=org.namespace).stdout
    kubectl("delete", secret, namespace=org.namespace)
    eventually("the key gone", lambda: ci("GET", "/systems").status == 401)


def test_a_key_that_has_expired_or_never_was_is_401(
    server: Server, kubectl: Kubectl, org: Organisation
) -> None:
    key = new_key(org.id)
    secret = manifest(
        key, namespace=org.namespace, user="old", expires=datetime.now(UTC) - timedelta(seconds=1)
    )
    kubectl("apply", "-f", "-", stdin=json.dumps(secret))
    for text in (key, new_key(org.id), new_key(new_id()), "nonsense"):
        holder = Client(server.url, None, org.id, {"X-API-Key": text})
        answer = holder("GET", "/systems")
        assert (answer.status, answer.json["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--organisation", "x", "--user", "ci"), 2),
        (("--organisation", new_id(), "--user", "ci"), 1),
        (("--organisation", new_id(), "--user", "ci", "--expires-in", "soon"), 2),
    ],
)
def test_the_command_says_what_is_wrong(
    kubeconfig: Path,
    arguments: tuple[str, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    try:
        ended = create_key.main(arguments)
    except SystemExit as end:
        ended = int(end.code or 0)
    output, errors = capsys.readouterr()
    assert (ended, output) == (code, "")
    assert errors


def test_who_asks_too_often_is_told_when_to_go_on(
    api_kubeconfig: Path, client: Client, org: Organisation
) -> None:
    with Server(api_kubeconfig, rate_limit=5) as server:
        eager = Client(server.url, client.token, org.id)
        answers = [eager("GET", "/projects") for _ in range(6)]
        assert [answer.status for answer in answers] == [200] * 5 + [429]
        assert answers[-1].json["code"] == "too_many_requests"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60


def test_whoever_fails_to_authenticate_too_often_waits_while_others_of_the_address_go_on(
    api_kubeconfig: Path, client: Client, org: Organisation
) -> None:
    with Server(api_kubeconfig, failed_limit=3) as server:
        known = Client(server.url, client.token, org.id)
        assert known("GET", "/projects").status == 200
        guesses = [Client(server.url, f"guess-{number}", org.id)("GET", "/projects") for number in range(5)]
        assert [answer.status for answer in guesses] == [401, 401, 401, 429, 429]
        assert guesses[-1].json["code"] == "too_many_requests"
        assert 1 <= int(guesses[-1].headers["Retry-After"]) <= 60
        key = Client(server.url, None, org.id)("GET", "/projects", X_API_Key="guess")
        assert key.status == 429
        pod = Client(server.url, "guess", org.id).at("/internal/v1/environment")
        assert pod.status == 429, "every door counts together"
        assert known("GET", "/projects").status == 200
        assert known.at("/readyz").status == 200


def test_operations_that_take_keys_as_bearer_values_are_those_of_existing_clients() -> None:
    assert {one.id for one in OPERATIONS if one.key_as_bearer} <= {"listSystems", "importConnector"}
