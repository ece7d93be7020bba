"""An organisation is exported, deleted and restored: the same ids, workloads and credentials."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.engine_secrets import make_engine_secrets
from tests.harness.cluster.kubectl import ROOT, Kubectl, make_organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import (
    SYSTEM,
    NamespacedKubectl,
    connection_spec,
    project_spec,
    ready,
)
from tests.integration.operator.rotating_provider import RotatingProvider
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster

SCRIPTS = ROOT / "deploy" / "backup"
DESCRIPTION = json.dumps({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {}})


@pytest.fixture
def rotating() -> Iterator[RotatingProvider]:
    with RotatingProvider() as running:
        yield running


def script(kubectl: Kubectl, folder: Path, name: str, argument: str, *, refused: str = "") -> str:
    """Runs a script of deploy/backup with a ``kubectl`` that talks to the session's cluster."""
    chosen = ["--context", kubectl.context] if kubectl.context else []
    stand_in = folder / "kubectl"
    stand_in.write_text(f'#!/bin/sh\nexec {" ".join([*kubectl.argv, *chosen])} "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        [str(SCRIPTS / name), argument],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "KUBECONFIG": str(kubectl.kubeconfig),
            "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
        },
    )
    assert (done.returncode == 0) is not bool(refused), done.stderr
    assert refused in done.stderr if refused else not done.stderr, done.stderr
    return done.stdout


def secret(acting: NamespacedKubectl, name: str, owner: dict[str, Any] | None = None, **values: str) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": acting.namespace}
    if owner:
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **reference}
        ]
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": metadata,
        "stringData": values,
    }
    acting.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def furnish(acting: NamespacedKubectl, provider: RotatingProvider) -> None:
    """What an organisation has, by Git and by REST."""
    oauth2 = {"tokenUrl": provider.token_url, "grant": {"type": "clientCredentials"}}
    schemes = [*SYSTEM["authSchemeConfigs"], {"id": "oauth", "type": "oauth2", "oauth2": oauth2}]
    acting.apply("System", "shop", {**SYSTEM, "authSchemeConfigs": schemes})
    secret(acting, "by-git", username="ann", password="kept by git")
    acting.apply("Connection", "by-git", {**connection_spec("shop", "by-git"), "name": "Of Git"})
    acting.apply("Connection", "by-rest", {**connection_spec("shop", "by-rest"), "name": "Of REST"})
    secret(acting, "by-rest", acting.get("connection", "by-rest"), username="bob", password="kept by rest")
    secret(
        acting,
        "renewed",
        accessToken="old",
        refreshToken="first",
        expiresAt="2026-01-01T00:00:00Z",
        clientId="me",
        clientSecret="hush",
    )
    item = {
        "id": "main",
        "authSchemeConfigId": "oauth",
        "type": "oauth2-token",
        "secretRef": {"name": "renewed"},
    }
    acting.apply(
        "Connection", "renewed", {"name": "Renewed", "systemRef": {"name": "shop"}, "credentials": [item]}
    )
    description = ["create", "configmap", "description", f"--from-literal=openapi.json={DESCRIPTION}"]
    acting.run(*description)
    part = {"name": "description", "key": "openapi.json"}
    acting.apply(
        "Connector", "shop", {"name": "Shop", "description": {"version": "one", "configMaps": [part]}}
    )
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "orders", "namespace": acting.namespace},
        "spec": project_spec("print('pinned')\n"),
    }
    arguments = ("apply", "--server-side", "--field-manager=tieline-api", "-f", "-")
    acting.kubectl(*arguments, stdin=json.dumps(manifest))
    first = eventually(
        "a version", lambda: acting.get("project", "orders").get("status", {}).get("latestVersion")
    )
    manifest["spec"] = project_spec(
        "print('newer')\n",
        environments=[
            {"name": "production", "version": first},
            {"name": "staging", "version": "latest"},
        ],
    )
    acting.kubectl(*arguments, stdin=json.dumps(manifest))
    acting.apply("EndUser", "ann", {"externalId": "ann", "displayName": "Ann"})
    by_kubectl(acting, BEN)


BEN = {
    "apiVersion": "tieline.dev/v1alpha1",
    "kind": "EndUser",
    "metadata": {"name": "ben", "labels": {"team": "shop"}},
    "spec": {"externalId": "ben", "displayName": "Ben"},
}


def by_kubectl(acting: NamespacedKubectl, manifest: dict[str, Any]) -> None:
    """Applies a manifest as people at a terminal do, and Argo CD by default: the client computes what goes."""
    acting.kubectl("apply", "-f", "-", namespace=acting.namespace, stdin=json.dumps(manifest))


def by_server(acting: NamespacedKubectl, manifest: dict[str, Any], manager: str) -> None:
    """Applies a manifest as Argo CD with ServerSideApply=true and Flux do."""
    arguments = ("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-")
    acting.kubectl(*arguments, namespace=acting.namespace, stdin=json.dumps(manifest))


def as_flux_takes_over(acting: NamespacedKubectl, kind: str, name: str) -> None:
    """What Flux does before it applies: it makes what kubectl managers own its own, so that it can remove it.

    See ``PatchReplaceFieldsManagers`` of fluxcd/pkg/ssa.
    """
    shown = acting.run("get", kind, name, "-o", "json", "--show-managed-fields")
    entries = json.loads(shown)["metadata"]["managedFields"]
    for entry in entries:
        if entry["manager"].startswith("kubectl") and not entry.get("subresource"):
            entry |= {"manager": "kustomize-controller", "operation": "Apply"}
    merged = {(entry["manager"], entry["operation"], entry.get("subresource")): entry for entry in entries}
    patch = {"metadata": {"managedFields": list(merged.values())}}
    acting.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch))


KINDS = (
    "systems",
    "connections",
    "connectors",
    "connectorversions",
    "projects",
    "projectversions",
    "endusers",
)


def summary(acting: NamespacedKubectl) -> dict[str, Any]:
    """All that has to be the same afterwards: ids, specs, values, and what the environments serve."""
    objects = {
        f"{kind}/{found['metadata']['name']}": (
            found["metadata"]["labels"]["tieline.dev/id"],
            found["spec"],
            {
                (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
                for entry in found["metadata"]["managedFields"]
                if not entry.get("subresource")
            },
            found["metadata"].get("annotations"),
        )
        for kind in KINDS
        for found in json.loads(acting.run("get", kind, "-o", "json", "--show-managed-fields"))["items"]
    }
    values = {
        found["metadata"]["name"]: (found["data"], found["metadata"].get("annotations", {}))
        for found in acting.list("secrets")
        if found["type"] == "tieline.dev/credential"
    }
    files = {
        found["metadata"]["name"]: found.get("binaryData") or found.get("data")
        for found in acting.list("configmaps")
        if found["metadata"]["name"] != "kube-root-ca.crt"
    }
    workloads = {
        found["metadata"]["name"]: (
            found["metadata"]["labels"],
            found["spec"]["template"]["metadata"]["annotations"]["tieline.dev/version"],
            found["spec"]["replicas"],
        )
        for found in acting.list("deployments")
    }
    environments = {
        item["name"]: (item["id"], item.get("pinnedVersion"), item.get("pinnedDigest"))
        for item in acting.get("project", "orders")["status"]["environments"]
    }
    return {
        "objects": objects,
        "values": values,
        "files": files,
        "workloads": workloads,
        "environments": environments,
    }


def owners_are_there(acting: NamespacedKubectl) -> bool:
    """Whether every reference names an object that lives."""
    uids = {found["metadata"]["uid"] for found in acting.list("tieline")}
    kept = [*acting.list("secrets"), *acting.list("configmaps"), *acting.list("tieline")]
    return all(
        owner["uid"] in uids for found in kept for owner in found["metadata"].get("ownerReferences", [])
    )


def scheduled(acting: NamespacedKubectl) -> set[str]:
    """The environments with a pod that has a node."""
    return {
        pod["metadata"]["labels"]["tieline.dev/environment"]
        for pod in acting.list("pods", "tieline.dev/environment-id")
        if pod["spec"].get("nodeName")
    }


def settled(acting: NamespacedKubectl) -> bool:
    kinds = ("systems", "connections", "connectors", "endusers")
    return (
        all(
            {"type": "Ready", "status": "True"}.items() <= condition.items()
            for kind in kinds
            for found in acting.list(kind)
            for condition in found.get("status", {}).get("conditions", [{}])
            if condition.get("type") == "Ready"
        )
        and len(acting.list("deployments")) == 2
    )


def data_of(acting: NamespacedKubectl, secret: str) -> dict[str, str]:
    found = acting.run("get", "secret", secret, "-o", "json", "--ignore-not-found")
    data: dict[str, str] = json.loads(found or "{}").get("data", {})
    return data


def ids_outlive_every_way_of_applying(acting: NamespacedKubectl, identity: str) -> None:
    """Applies a restored object's manifest again, in all the ways that GitOps tools and people have."""

    def labels() -> dict[str, str]:
        found: dict[str, str] = acting.get("enduser", "ben")["metadata"].get("labels", {})
        return found

    by_kubectl(acting, BEN)
    assert labels()["tieline.dev/id"] == identity
    by_server(acting, BEN, "argocd-controller")
    assert labels()["tieline.dev/id"] == identity
    as_flux_takes_over(acting, "enduser", "ben")
    by_server(acting, BEN, "kustomize-controller")
    assert labels()["tieline.dev/id"] == identity
    without = {**BEN, "metadata": {"name": "ben"}}
    by_kubectl(acting, without)
    by_server(acting, without, "kustomize-controller")
    by_server(acting, without, "argocd-controller")
    assert labels() == {"tieline.dev/id": identity}, "what the manifest no longer names goes, the id stays"

    # Who takes the label away all the same finds it again, with the same id.
    acting.run("label", "enduser", "ben", "tieline.dev/id-")
    eventually("the label is back", lambda: labels().get("tieline.dev/id") == identity)


def test_an_organisation_comes_back_with_its_ids_workloads_and_credentials(
    kubectl: Kubectl,
    operator_kubeconfig: Path,
    crds_installed: None,
    tmp_path: Path,
    rotating: RotatingProvider,
) -> None:
    organisation, other = make_organisation(kubectl), make_organisation(kubectl)
    acting = NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(other.namespace, organisation.namespace),
        log=tmp_path / "operator.log",
        variables={"TIELINE_EGRESS_ALLOWED": "127.0.0.1/32"},
    )
    with running:
        furnish(acting, rotating)
        tokens = tokens_name("renewed", "main")
        eventually("tokens", lambda: "accessToken" in data_of(acting, tokens))
        eventually("all is ready", lambda: settled(acting), seen=lambda: acting.list("connections"))
        running.at_rest()
        before = summary(acting)
        assert rotating.asked == ["first"]
        backup = tmp_path / "organisation.json"
        backup.write_text(script(kubectl, tmp_path, "export.sh", organisation.namespace))
        running.stop()

        kubectl("delete", "namespace", organisation.namespace, "--wait=true")
        said = script(kubectl, tmp_path, "restore.sh", str(backup))
        assert f"of organisation {organisation.namespace}" in said
        script(kubectl, tmp_path, "restore.sh", str(backup), refused="delete it first")
        nothing_runs_yet(acting)
        running.start()
        eventually("all is ready", lambda: settled(acting), seen=lambda: acting.list("connections"))
        running.at_rest()

        after = summary(acting)
        for part, was in before.items():
            assert after[part] == was, part
        label = acting.get("namespace", organisation.namespace)["metadata"]["labels"]
        assert label["tieline.dev/organisation"] == organisation.id
        assert owners_are_there(acting)
        assert rotating.asked == ["first"], "no token is asked for anew: each counts once only"
        eventually("each environment has a pod on a node", lambda: len(scheduled(acting)) == 2)

        # The REST API still owns what it wrote: it may change it, and nobody else may without force.
        changed = {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "Project",
            "metadata": {"name": "orders", "namespace": acting.namespace},
            "spec": {**acting.get("project", "orders")["spec"], "name": "Renamed"},
        }
        refused = kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(changed), check=False)
        assert 'conflict with "tieline-api"' in refused.stderr
        kubectl("apply", "--server-side", "--field-manager=tieline-api", "-f", "-", stdin=json.dumps(changed))

        ids_outlive_every_way_of_applying(acting, before["objects"]["endusers/ben"][0])

        # What belongs together goes together again.
        acting.run("delete", "connection", "by-rest", "renewed")
        eventually(
            "their Secrets are gone",
            lambda: {"by-rest", tokens}.isdisjoint(
                found["metadata"]["name"] for found in acting.list("secrets")
            ),
        )
        assert acting.get("secret", "by-git")
        kubectl("delete", "namespace", organisation.namespace, other.namespace, "--wait=false")


def nothing_runs_yet(acting: NamespacedKubectl) -> None:
    """No restored object says that it is ready, or that something of it runs, before the operator has seen it."""
    for kind in KINDS:
        for found in acting.list(kind):
            assert (ready(found)["status"], ready(found)["reason"]) == ("Unknown", "Restored"), found
            assert "observedGeneration" not in found["status"]
    environments = acting.get("project", "orders")["status"]["environments"]
    assert {item["status"] for item in environments}.isdisjoint({"running"})
    assert not any(item.get("readyReplicas") for item in environments)
    assert "running" not in acting.get("project", "orders")["status"]["summary"]


def test_the_engines_keys_come_back_as_they_were(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    """With other keys the volumes of before could not be read."""
    trust = make_engine_secrets(kubectl, namespace)
    keys = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tieline-engine-trust"}}
    kubectl(
        *("apply", "-f", "-"),
        namespace=namespace,
        stdin=json.dumps({**keys, "stringData": trust.to_values()}),
    )

    def values() -> dict[str, Any]:
        found = json.loads(kubectl("get", "secrets", "-o", "json", namespace=namespace).stdout)["items"]
        return {one["metadata"]["name"]: (one["type"], one["data"]) for one in found}

    before = values()
    names = ["tieline-engine-api", "tieline-engine-config", "tieline-engine-trust"]
    assert sorted(before) == names
    backup = tmp_path / "engine.json"
    backup.write_text(script(kubectl, tmp_path, "export-engine.sh", namespace))

    kubectl("delete", "secrets", *names, namespace=namespace)
    restored = ("apply", "--server-side", "--force-conflicts", "-f", str(backup))
    assert trust.signer.seed not in kubectl(*restored, namespace=namespace).stdout
    assert values() == before
    # What can be made again is left out where it is not there.
    kubectl("delete", "secrets", "tieline-engine-api", "tieline-engine-config", namespace=namespace)
    kept = json.loads(script(kubectl, tmp_path, "export-engine.sh", namespace))["items"]
    assert [one["metadata"]["name"] for one in kept] == ["tieline-engine-trust"]
    kubectl("delete", "secrets", "tieline-engine-trust", namespace=namespace)
    script(kubectl, tmp_path, "export-engine.sh", namespace, refused="not found")
