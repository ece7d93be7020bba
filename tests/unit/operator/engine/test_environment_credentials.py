"""The credentials with which pods connect to the event engine: written before the pods, renewed, and taken back."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.operator.objects import NAMESPACE, ORGANISATION, project
from tests.unit.operator.project_fixtures import change, reconciling
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import parse_time
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.credentials import EXPIRES_ANNOTATION, SIGNER_ANNOTATION

TRUST = EngineTrust()


async def deployed(*, trust: EngineTrust | None = TRUST, **spec: Any) -> ReconcileLoop:
    there = reconciling(project(**spec), engine_signer=trust.users if trust else None)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there


def secret(there: ReconcileLoop) -> Any:
    (found,) = there.cluster[r.ENGINE_SECRETS].list()
    return found


def claims(found: Any) -> dict[str, Any]:
    """The user's claims, which the engine reads."""
    text = base64.b64decode(found["data"]["engine.creds"]).decode()
    body = text.splitlines()[1].split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return decoded


async def test_an_environment_gets_credentials_for_its_own_events_alone() -> None:
    there = await deployed()
    found = secret(there)
    environment = there.environment()["id"]
    name = there.deployment()["metadata"]["name"]
    assert found["metadata"]["name"] == f"{name}-engine"
    assert found["type"] == "tieline.dev/engine-credentials"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Project"
    rights = claims(found)["nats"]
    allowed = [*rights["pub"]["allow"], *rights["sub"]["allow"]]
    assert allowed
    assert all(environment in subject for subject in allowed)
    assert f"history.{ORGANISATION}.{environment}" in allowed
    assert claims(found)["exp"] == int(
        parse_time(found["metadata"]["annotations"][EXPIRES_ANNOTATION]).timestamp()
    )


async def test_the_credentials_are_there_before_the_pods() -> None:
    there = await deployed()
    kinds = [obj["kind"] for _, old, obj in there.cluster.written if old is None]
    assert kinds.index("Secret") < kinds.index("Deployment")


async def test_pods_are_told_the_engine_and_mount_the_credentials() -> None:
    pod = (await deployed()).deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {item["name"]: item["value"] for item in container["env"]}
    assert variables["TIELINE_ENGINE_URL"] == "nats://tieline-engine.tieline-system.svc:4222"
    assert variables["TIELINE_ENGINE_CREDENTIALS_FILE"] == "/var/run/secrets/tieline-engine/engine.creds"
    (volume,) = [item for item in pod["volumes"] if item["name"] == "engine"]
    assert volume["secret"]["secretName"].endswith("-engine")
    assert {"name": "engine", "mountPath": "/var/run/secrets/tieline-engine", "readOnly": True} in container[
        "volumeMounts"
    ]


async def test_credentials_are_renewed_ten_days_before_their_end_and_no_pod_is_replaced() -> None:
    there = await deployed()
    made = there.now
    await there.advance(CONFIG.healthy_seconds)
    before, revision = secret(there), there.deployment()["spec"]
    there.now = made + timedelta(days=19)
    assert await there.until_quiet() == 0
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after == pytest.approx(timedelta(days=1).total_seconds(), abs=1)

    there.now += timedelta(days=1, seconds=1)
    await there.until_quiet()
    assert claims(secret(there))["exp"] - claims(before)["exp"] == pytest.approx(20 * 86400, abs=5)
    assert there.deployment()["spec"] == revision


async def test_another_signer_renews_all_credentials_at_once() -> None:
    there = await deployed()
    other = EngineTrust(account=TRUST.account)
    again = ReconcileLoop(there.cluster, engine_signer=other.users)
    await again.until_quiet()
    assert secret(again)["metadata"]["annotations"][SIGNER_ANNOTATION] == other.signer.public_key
    assert claims(secret(again))["iss"] == other.signer.public_key
    assert await again.until_quiet() == 0


async def test_a_namespace_that_becomes_another_organisation_gets_other_rights() -> None:
    there = await deployed()
    other = "01ARZ3NDEKTSV4RRFFQ69G5FAW"
    there.cluster.edited(r.NAMESPACES, NAMESPACE, "")["metadata"]["labels"]["tieline.dev/organisation"] = (
        other
    )
    await there.until_quiet()
    assert any(f"history.{other}." in subject for subject in claims(secret(there))["nats"]["pub"]["allow"])


@pytest.mark.parametrize("text", ["", "soon", "2026-13-40T00:00:00Z"])
async def test_an_end_that_somebody_edited_renews_the_credentials(text: str) -> None:
    there = await deployed()
    there.cluster.edited(r.ENGINE_SECRETS, secret(there)["metadata"]["name"])["metadata"]["annotations"][
        EXPIRES_ANNOTATION
    ] = text
    await there.until_quiet()
    assert parse_time(secret(there)["metadata"]["annotations"][EXPIRES_ANNOTATION]) > there.now


async def test_labels_that_somebody_removed_come_back_with_credentials_that_work() -> None:
    there = await deployed()
    edited = there.cluster.edited(r.ENGINE_SECRETS, secret(there)["metadata"]["name"])
    del edited["metadata"]["labels"]["tieline.dev/environment"]
    del edited["data"]
    await there.until_quiet()
    assert claims(secret(there))["nats"]["pub"]["allow"]
    assert secret(there)["metadata"]["labels"]["tieline.dev/environment"] == "production"


async def test_while_the_keys_are_not_known_deploys_go_on_and_credentials_stay() -> None:
    there = await deployed()
    before = secret(there)
    again = ReconcileLoop(there.cluster)
    change(again, source={"files": [{"filename": "main.py", "content": "print('two')\n"}]})
    await again.until_quiet()
    assert secret(again) == before

    fresh = await deployed(trust=None)
    assert fresh.cluster[r.ENGINE_SECRETS].list() == []
    (volume,) = [
        item for item in fresh.deployment()["spec"]["template"]["spec"]["volumes"] if item["name"] == "engine"
    ]
    assert volume["secret"]["optional"] is True


async def test_credentials_go_with_the_environment() -> None:
    there = await deployed()
    change(there, environments=[{"name": "staging", "version": "latest"}])
    await there.until_quiet()
    assert secret(there)["metadata"]["labels"]["tieline.dev/environment"] == "staging"


async def test_a_secret_of_that_name_that_is_somebody_elses_is_left_alone_and_reported() -> None:
    there = await deployed()
    name = secret(there)["metadata"]["name"]
    there.cluster.edited(r.ENGINE_SECRETS, name)["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}
    ]
    before = secret(there)
    change(there, runtime={"replicas": 1, "image": "other:1"})
    await there.until_quiet()
    assert secret(there) == before
    assert there.ready(r.PROJECTS, "order-sync")[1] == "NotOwned"
