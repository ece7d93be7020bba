"""A client with rights in one namespace alone: what it sees, and that it asks for nothing else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation, relabel
from tests.harness.session.waiting import eventually_async, until
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id
from tieline_core.kubernetes import Forbidden, Informer, Invalid, Kube
from tieline_core.kubernetes.resources import CONFIG_MAPS, NAMESPACES
from tieline_core.kubernetes.scoped_client import ScopedKube

pytestmark = pytest.mark.cluster


@pytest.fixture
def other(kubectl: Kubectl) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        kubectl("create", "configmap", "theirs", namespace=made.namespace)
        yield made


@pytest.fixture
def account(kubectl: Kubectl, kubeconfig: Path, organisation: Organisation, tmp_path: Path) -> Path:
    """Of a ServiceAccount with a Role in the organisation's namespace."""
    namespace = organisation.namespace
    kubectl("create", "serviceaccount", "one", namespace=namespace)
    rules: list[dict[str, Any]] = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "one"},
        "rules": rules,
    }
    kubectl("apply", "-f", "-", namespace=namespace, stdin=yaml.safe_dump(role))
    who = f"--serviceaccount={namespace}:one"
    kubectl("create", "rolebinding", "one", "--role=one", who, namespace=namespace)
    token = kubectl("create", "token", "one", namespace=namespace).stdout.strip()
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    config["current-context"] = kubectl.context or config["current-context"]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _organisations(mirror: Informer) -> set[str]:
    return {item["metadata"]["labels"][ORGANISATION_LABEL] for item in mirror.list()}


async def test_everywhere_is_the_one_namespace(
    account: Path, kubectl: Kubectl, organisation: Organisation, other: Organisation
) -> None:
    kubectl("create", "configmap", "ours", namespace=organisation.namespace)
    async with await Kube.connect(kubeconfig=account) as anywhere:
        with pytest.raises(Forbidden):
            await anywhere.list(CONFIG_MAPS)
        with pytest.raises(Forbidden):
            await anywhere.list(NAMESPACES)
        with pytest.raises(Forbidden):
            await anywhere.list(CONFIG_MAPS, other.namespace)
    async with await ScopedKube.connect(kubeconfig=account, namespaces=[organisation.namespace]) as kube:
        mirror = Informer(kube, CONFIG_MAPS)
        await mirror.start()
        try:
            await asyncio.wait_for(mirror.synced(), 20)
            assert "ours" in {item["metadata"]["name"] for item in mirror.list()}
            kubectl("create", "configmap", "later", namespace=organisation.namespace)
            await until(lambda: mirror.get(organisation.namespace, "later"), within=20)
            assert not mirror.list(other.namespace)
        finally:
            await mirror.stop()
        assert kube.requests["watch", "configmaps"] == 1


async def test_the_namespaces_label_is_followed_without_a_list_or_a_watch(
    account: Path, kubectl: Kubectl, organisation: Organisation
) -> None:
    names = [organisation.namespace]
    async with await ScopedKube.connect(kubeconfig=account, namespaces=names, poll=0.1) as kube:
        mirror = Informer(kube, NAMESPACES, label_selector=ORGANISATION_LABEL)
        await mirror.start()
        try:
            await asyncio.wait_for(mirror.synced(), 20)
            assert _organisations(mirror) == {organisation.id}
            changed = new_id()
            relabel(kubectl, organisation.namespace, changed)
            await until(lambda: _organisations(mirror) == {changed}, within=20)
            relabel(kubectl, organisation.namespace, None)
            await until(lambda: not mirror.list(), within=20)
            relabel(kubectl, organisation.namespace, organisation.id)
            await until(lambda: _organisations(mirror) == {organisation.id}, within=20)
            assert mirror.healthy()
        finally:
            await mirror.stop()
        asked = {verb for verb, resource in kube.requests if resource == NAMESPACES.plural}
    assert asked == {"get"}


async def test_of_several_namespaces_one_must_be_named(kubeconfig: Path, organisation: Organisation) -> None:
    names = [organisation.namespace, "default"]
    async with await ScopedKube.connect(kubeconfig=kubeconfig, namespaces=names) as kube:
        with pytest.raises(Invalid, match="configmaps"):
            await kube.list(CONFIG_MAPS)
        # Kubernetes gives each namespace a ConfigMap, some time after it exists.
        await eventually_async(
            "a ConfigMap", lambda: kube.list(CONFIG_MAPS, organisation.namespace), within=60
        )
        assert {item["metadata"]["name"] for item in await kube.list(NAMESPACES)} == set(names)


async def test_a_namespace_that_comes_later_is_seen_and_so_is_its_end(
    kubeconfig: Path, kubectl: Kubectl, crds_installed: None
) -> None:
    name = f"later-{new_id().lower()}"
    async with await ScopedKube.connect(kubeconfig=kubeconfig, namespaces=[name], poll=0.1) as kube:
        mirror = Informer(kube, NAMESPACES)
        await mirror.start()
        try:
            await asyncio.wait_for(mirror.synced(), 20)
            assert not mirror.list()
            kubectl("create", "namespace", name)
            await until(lambda: mirror.get(None, name), within=20)
            kubectl("delete", "namespace", name)
            await until(lambda: not mirror.list(), within=20)
        finally:
            await mirror.stop()
