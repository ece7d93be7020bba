"""docs/credentials.md by kubectl: every command works, and every credential is valid."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.harness.identity.credentials_page import read_page, write_pair
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl

pytestmark = pytest.mark.cluster


def test_what_the_page_says_for_kubectl_works(acting: NamespacedKubectl, tmp_path: Path) -> None:
    page = read_page()
    write_pair(tmp_path)
    kubectl = shlex.join((*acting.kubectl.argv, "-n", acting.namespace))
    for command in page.commands:
        subprocess.run(
            ["sh", "-ec", command.replace("kubectl ", f"{kubectl} ")],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(acting.kubectl.kubeconfig)},
            check=True,
            timeout=60,
            capture_output=True,
        )
    acting.apply("System", "shop", page.system["spec"])
    acting.until_ready("system", "shop", "True", "Valid")
    acting.apply("Connection", "shop", {**page.connection["spec"], "credentials": page.items})

    def errors() -> dict[str, list[str] | None]:
        status = acting.get("connection", "shop").get("status", {})
        return {one["id"]: one.get("errors") for one in status.get("credentials", [])}

    wanted: dict[str, list[str]] = {item["id"]: [] for item in page.items}
    eventually("all are valid", lambda: errors() == wanted, seen=errors)
    assert {item["type"] for item in page.items} >= {
        "string",
        "binary",
        "basic-auth",
        "certificate",
        "jwt-bearer",
        "oauth1",
        "oauth2-client",
        "oauth2-password",
        "oauth2-token",
        "none",
    }
    acting.apply("CredentialGrant", page.grant["metadata"]["name"], page.grant["spec"])
    acting.until_ready("credentialgrant", page.grant["metadata"]["name"], "True", "Granted")
