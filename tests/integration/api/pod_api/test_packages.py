"""Who may store packages, and who gets them: the Job of just these packages, and pods of the organisation."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import RESTRICTED
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.engine_objects import with_engine
from tests.integration.api.objects import make_project
from tests.integration.api.pods import ENVIRONMENT, account_token, ask
from tieline_core.engine.package_streams import ensure_packages
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import environment_id
from tieline_core.identity.names import packages_name, workload_name
from tieline_protocol.packages import CHUNK_BYTES, installer_job

pytestmark = pytest.mark.cluster

ARCHIVE = os.urandom(2 * CHUNK_BYTES + 5)
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()
FORGED = b"something else"


@dataclass(frozen=True)
class Place:
    """An environment, its pods' token, and Jobs that install its packages."""

    client: Client
    kubectl: Kubectl
    org: Organisation
    project: dict[str, Any]
    token: str

    @property
    def environment(self) -> str:
        return environment_id(self.project["id"], "production")

    @property
    def account(self) -> str:
        return packages_name(workload_name(self.project["id"].lower(), "production"))

    def of_pod(self, name: str) -> str:
        """The token of a pod of this name with the Jobs' account."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            # No node takes it: the token is all that is wanted of it.
            "spec": {
                "serviceAccountName": self.account,
                "nodeSelector": {"tieline.dev/none": "true"},
                "containers": [{"name": "install", "image": "none", "securityContext": RESTRICTED}],
            },
        }
        namespace = self.org.namespace
        self.kubectl("create", "serviceaccount", self.account, namespace=namespace, check=False)
        self.kubectl("apply", "-f", "-", namespace=namespace, stdin=json.dumps(pod))
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}")
        command = ("create", "token", self.account, "--audience=tieline", *bound)
        return self.kubectl(*command, namespace=namespace).stdout.strip()

    def installer(self, key: str) -> str:
        """The token of the Job that the operator made for a key."""
        return self.of_pod(f"{installer_job(self.environment, key)}-abcde")

    def put(self, key: str, token: str | None, content: bytes = ARCHIVE, digest: str = "") -> Answer:
        found = digest or hashlib.sha256(content).hexdigest()
        path = f"{ENVIRONMENT}/packages/{key}?digest={found}"
        return Client(self.client.url, token, "").at(path, method="PUT", raw=content)

    def get(self, key: str, token: str | None = "", digest: str = DIGEST) -> Answer:
        path = f"{ENVIRONMENT}/packages/{key}?digest={digest}"
        return Client(self.client.url, self.token if token == "" else token, "").at(path)


def make_place(client: Client, kubectl: Kubectl, org: Organisation, engine: NatsServer) -> Place:
    async def make(admin: Any) -> None:
        await ensure_packages(admin.jetstream(), org.id, StreamLimits(packages_bytes=1 << 26))

    with_engine(engine, make)
    project = make_project(client)
    token = account_token(kubectl, org, project)
    eventually("the environment", lambda: ask(client, token).status == 200)
    return Place(client, kubectl, org, project, token)


@pytest.fixture(scope="module")
def place(client: Client, kubectl: Kubectl, org: Organisation, engine: NatsServer) -> Place:
    return make_place(client, kubectl, org, engine)


@pytest.fixture(scope="module")
def elsewhere(neighbour: Client, kubectl: Kubectl, other_org: Organisation, engine: NatsServer) -> Place:
    """In another organisation."""
    return make_place(neighbour, kubectl, other_org, engine)


def a_key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_job_stores_packages_and_pods_of_the_environment_get_them(place: Place) -> None:
    key = a_key("stored")
    stored = place.put(key, place.installer(key))
    assert stored.status == 200, stored.raw
    assert stored.json == {"digest": DIGEST, "size": len(ARCHIVE)}
    got = place.get(key)
    assert (got.status, got.raw) == (200, ARCHIVE)


def test_nobody_but_the_job_of_these_packages_stores_them(place: Place, elsewhere: Place) -> None:
    key = a_key("wanted by many")
    project = make_project(place.client)
    other = replace(place, project=project, token=account_token(place.kubectl, place.org, project))
    eventually("the other environment", lambda: ask(place.client, other.token).status == 200)
    installer = place.installer(key)
    unbound = ("create", "token", place.account, "--audience=tieline")
    forbidden = {
        "the code of the environment": place.token,
        "the code of another one": other.token,
        "the Job of other packages": place.installer(a_key("others")),
        "a pod with the Job's account and another name": place.of_pod("tieline-packages-mine"),
        "whoever has the account without a pod": place.kubectl(
            *unbound, namespace=place.org.namespace
        ).stdout.strip(),
    }
    for who, token in forbidden.items():
        assert place.put(key, token, FORGED).status == 403, who
    for token in (str(place.client.token), None):
        assert place.put(key, token, FORGED).status == 401
    there = elsewhere.installer(key)
    assert elsewhere.put(key, there, FORGED).status == 200, "another organisation has a store of its own"
    assert place.get(key).status == 404
    assert place.put(key, installer).status == 200
    assert place.get(key).raw == ARCHIVE
    assert elsewhere.get(key, digest=hashlib.sha256(FORGED).hexdigest()).raw == FORGED


def test_what_is_stored_is_not_replaced(place: Place) -> None:
    key = a_key("twice")
    installer = place.installer(key)
    assert place.put(key, installer).status == 200
    again = place.put(key, installer, FORGED)
    assert (again.status, again.json["digest"]) == (200, DIGEST)
    assert place.get(key).raw == ARCHIVE


def test_packages_are_for_pods_that_know_what_they_are(place: Place, elsewhere: Place) -> None:
    key = a_key("read")
    assert place.put(key, place.installer(key)).status == 200
    assert place.get(key, digest="0" * 64).status == 404
    assert place.get(a_key("nothing")).status == 404
    assert place.get(key, elsewhere.token).status == 404
    assert place.get(key, None).status == 401
    assert place.get(key, str(place.client.token)).status == 401
    # The lock says what they are: another environment of the organisation with the same lock needs no Job.
    project = make_project(place.client)
    other = account_token(place.kubectl, place.org, project)
    eventually("the other environment", lambda: ask(place.client, other).status == 200)
    assert place.get(key, other).raw == ARCHIVE


@pytest.mark.parametrize("key", ["cursor", "..", "A" * 64, "*", ">", "0" * 63 + "."])
def test_keys_and_digests_that_are_none_are_refused(place: Place, key: str) -> None:
    assert place.get(key).status in (404, 422)
    assert place.get(a_key("read"), digest=key).status == 422


def test_an_archive_that_is_not_what_it_says_is_refused_and_may_come_again(place: Place) -> None:
    key = a_key("broken")
    installer = place.installer(key)
    wrong = place.put(key, installer, ARCHIVE, digest="0" * 64)
    assert (wrong.status, wrong.fields) == (422, ["digest"])
    assert place.get(key, digest="0" * 64).status == 404
    assert place.put(key, installer).status == 200
