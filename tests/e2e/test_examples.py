"""The examples that come with manifests, on real pods."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Answer, Platform, Tenant, administrator, http
from tests.harness.cluster.kubectl import ROOT, Organisation
from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.oauth_sign_in import connect, find_club
from tieline_cluster.deployment.platform import with_images

pytestmark = pytest.mark.e2e

KEY = {"X-API-Key": "stock-demo-key-not-a-secret"}
Example = Callable[..., Tenant]


@pytest.fixture
def example(platform: Platform, tmp_path: Path) -> Iterator[Example]:
    """Applies a copy of an example, and takes it away at the end."""
    images = {"runtime": platform.images["runtime"]}
    with ExitStack() as stack:

        def apply(
            name: str,
            namespace: str,
            application: str,
            secrets: dict[str, dict[str, str]] | None = None,
            **changes: tuple[str, str],
        ) -> Tenant:
            folder = tmp_path / name
            shutil.copytree(ROOT / "examples" / name, folder)
            change(folder, **changes)
            manifests = str(
                with_images(
                    folder,
                    images=images,
                    work=tmp_path / f"{name}-images",
                    secrets=secrets,
                    namespace=namespace,
                )
            )
            platform.kubectl("apply", "-k", manifests)
            stack.callback(platform.kubectl, "delete", "-k", manifests, "--wait=true", timeout=180)
            platform.kubectl(
                "rollout", "status", f"deployment/{application}", "--timeout=120s", namespace=namespace
            )
            return Tenant(kubectl=platform.kubectl, namespace=namespace)

        yield apply


def change(folder: Path, **changes: tuple[str, str]) -> None:
    """Replace a text in files of the integration, named without their ending."""
    for name, (old, new) in changes.items():
        file = folder / "integration" / f"{name}.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def address(tenant: Tenant, service: str) -> str:
    return f"http://{tenant.get('service', service)['spec']['clusterIP']}"


def test_points_go_to_each_customers_own_account(example: Example) -> None:
    tenant = example("loyalty", "cafe", "programme")
    url = tenant.until("loyalty", "running")["publicUrl"]

    def pay(customer: str, order: dict[str, Any], key: bytes = b"only-for-the-demonstration") -> Answer:
        body = json.dumps(order).encode()
        signature = hmac.new(key, body, hashlib.sha256).hexdigest()
        headers = {"X-Signature": f"sha256={signature}"}
        return http("POST", f"{url}/paid/users/{customer}", body=body, headers=headers)

    order = {"number": "1", "total": "19.90"}
    first = eventually("points", lambda: _ok(pay("ann", order)))
    assert first.json == {"credited": 39, "balance": 39}
    assert pay("ann", order).json["balance"] == 39, "an order counts once"
    assert eventually("points", lambda: _ok(pay("ben", order))).json["balance"] == 19
    assert pay("ann", order, key=b"guessed").status == 401
    assert pay("zoe", order).status == 404


def test_a_member_signs_in_and_the_integration_reads_her_record(example: Example, platform: Platform) -> None:
    """The platform has a public address, as in the demo: OAuth needs nothing else there."""
    callback = f"{platform.url}/oauth2/callback"
    tenant = example("login", "acme", "club", secrets={"club-settings": {"REDIRECT_URIS": callback}})
    tenant.until("membership", "running")
    labels = platform.kubectl("get", "namespace", "acme", "-o", "jsonpath={.metadata.labels}").stdout
    organisation = json.loads(labels)["tieline.dev/organisation"]
    rest = administrator(platform, Organisation(id=organisation, namespace="acme"))
    eventually("the club reached", lambda: _ok(http("GET", f"{address(tenant, 'club')}/healthz")))
    club = eventually(
        "the club known",
        lambda: find_club(
            api=rest.url, token=rest.token, organisation=organisation, url=address(tenant, "club")
        ),
    )
    url = tenant.until("membership", "running")["publicUrl"]
    for member, number in (("ann", "M-001"), ("ben", "M-002")):
        connection = connect(club, member=member, password=f"{member}s-password")
        assert connection["credentials"][0]["credential"]["type"] == "oauth2-token"
        record = {"hello": member.title(), "number": number}
        eventually(f"{record}", partial(_reads, f"{url}/me", record))


def test_stock_is_in_step_through_a_rollout_and_a_restart_of_both_pods(
    example: Example, platform: Platform, tmp_path: Path
) -> None:
    # Every five minutes would be long for a test: every three seconds, in six fields.
    tenant = example("stock", "boreal", "supplier", main=('"*/5 * * * *", overlap="skip"', '"*/3 * * * * *"'))
    supplier = address(tenant, "supplier")
    url = tenant.until("stock", "running", within=240)["publicUrl"]
    made = [{"sku": f"sku-{number:03}", "quantity": number} for number in range(120)]

    def sell(count: int) -> None:
        for _ in range(count):
            change = {"sku": f"sku-{len(made) % 7}", "quantity": len(made)}
            assert http("POST", f"{supplier}/changes", body=change, headers=KEY).status == 201
            made.append(change)

    def in_step() -> bool:
        assert log(supplier)["set"][-1:] == made[-1:]
        return True

    eventually("the first changes in the shop", in_step)
    sell(3)
    eventually("the new changes in the shop", in_step)

    # A new version, while changes go on.
    folder = tmp_path / "stock"
    change(folder, main=("Brought the shop up to date", "Brought the shop up to date again"))
    manifests = with_images(
        folder, images={"runtime": platform.images["runtime"]}, work=tmp_path / "stock-images"
    )
    before = {pod["metadata"]["uid"] for pod in tenant.pods("stock")}
    platform.kubectl("apply", "-k", str(manifests))

    def replaced() -> bool:
        sell(1)
        now = {pod["metadata"]["uid"] for pod in tenant.pods("stock")}
        assert len(now) == 2
        return not now & before

    eventually("both pods replaced", replaced)
    sell(2)
    eventually("all changes in the shop", in_step)
    # Nothing was lost, nothing came twice, and all of it in order: the cursor went from pod to pod.
    assert log(supplier)["set"] == made
    assert http("GET", f"{url}/position").json == {"cursor": str(len(made))}

    # Both pods at once: what is remembered is not theirs.
    tenant.kubectl("delete", "pod", "-l", "tieline.dev/project=stock", "--wait=false", namespace="boreal")
    sell(2)
    eventually("the last changes in the shop", in_step)
    found = log(supplier)
    assert found["set"] == made
    assert found["asked"].count("") == 1, "the first page was asked for once"


def log(supplier: str) -> dict[str, Any]:
    answer = http("GET", f"{supplier}/log", headers=KEY)
    assert answer.status == 200, answer
    return dict(answer.json)


def _reads(url: str, record: dict[str, str]) -> bool:
    return bool(http("GET", url).json == record)


def _ok(answer: Answer) -> Answer | None:
    return answer if answer.status < 300 else None
