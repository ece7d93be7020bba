"""The admission policies on the session's cluster."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually

_NOBODY = "--as=nobody-of-the-policies"


def install_policies(kubectl: Kubectl, folder: Path) -> None:
    """Applies the policies of ``folder``, and waits until the API server asks them."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder))
    kubectl(
        "create",
        "clusterrolebinding",
        "nobody-of-the-policies",
        "--clusterrole=tieline-admin",
        "--user=nobody-of-the-policies",
        check=False,
    )
    probes = {
        "Connection": {
            "name": "probe",
            "systemRef": {"name": "probe"},
            "credentials": [
                {"id": "k", "type": "string", "authSchemeConfigId": "k", "secretRef": {"name": "k"}}
            ],
        },
        "Project": {"name": "probe", "source": {"configMaps": [{"name": "k"}]}},
    }
    for kind, spec in probes.items():
        probe = {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": "probe"},
            "spec": spec,
        }

        def refused(manifest: str = json.dumps(probe)) -> bool:
            done = kubectl(
                "create",
                "--dry-run=server",
                "-f",
                "-",
                _NOBODY,
                namespace="default",
                stdin=manifest,
                check=False,
            )
            return "denied request" in done.stderr

        eventually(f"the policy for {kind} in force", refused)
    kubectl("delete", "clusterrolebinding", "nobody-of-the-policies")
