"""A cluster's own certificate authority, its certificates, and the kubeconfigs that use them."""

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from tieline_cluster.commands import run
from tieline_cluster.definition.hyperkube import Binaries
from tieline_cluster.definition.plan import Plan
from tieline_cluster.files import write_if_changed

CLUSTER_DOMAIN = "cluster.local"
KUBECONFIG_USERS = ("admin", "controller-manager", "scheduler", "kubelet", "proxy", "dns")
"""The certificates that are also wrapped into a kubeconfig."""


def certificate_requests(plan: Plan) -> list[dict[str, Any]]:
    """Every certificate of the cluster: who it is for, and whether for serving, for being a client, or both.

    The API server's names include the Service address, so that pods can use the in-cluster configuration. Users and
    groups are those that Kubernetes' own RBAC rules and the Node authoriser know.
    """
    node = [
        _client("kubelet", f"system:node:{plan.node_name}", "system:nodes"),
        _client("proxy", "system:kube-proxy"),
        _client("dns", "tieline:dns"),
        _server("kubelet-server", [plan.node_name], [plan.node_address]),
    ]
    local = ["localhost"], ["127.0.0.1"]
    return [
        _client("admin", "tieline-admin", "system:masters"),
        _client("apiserver-kubelet", "kube-apiserver-kubelet", "system:masters"),
        _client("apiserver-etcd", "kube-apiserver-etcd"),
        _client("controller-manager", "system:kube-controller-manager"),
        _client("scheduler", "system:kube-scheduler"),
        _server("etcd", *local, client=True),
        _server("control-plane", *local),
        _server(
            "apiserver",
            [
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                f"kubernetes.default.svc.{CLUSTER_DOMAIN}",
                "localhost",
            ],
            list(dict.fromkeys([str(plan.api_service), "127.0.0.1", plan.node_address])),
        ),
        *(node if plan.options.node else ()),
    ]


def ensure_certificates(plan: Plan, binaries: Binaries) -> None:
    """Make what is missing or outdated, and the kubeconfigs with it."""
    requests = certificate_requests(plan)
    request = {
        "directory": str(plan.certificate("ca").parent),
        "certificates": requests,
        "keys": ["service-accounts"],
    }
    run([binaries.hyperkube, "certificates"], stdin=json.dumps(request), timeout=60)
    for user in KUBECONFIG_USERS:
        if any(wanted["name"] == user for wanted in requests):
            write_if_changed(kubeconfig_path(plan, user), _kubeconfig(plan, user), mode=0o600)


def kubeconfig_path(plan: Plan, user: str) -> Path:
    """The kubeconfig of a component, or the administrator's."""
    return plan.kubeconfig if user == "admin" else plan.config(f"{user}.kubeconfig")


def _kubeconfig(plan: Plan, user: str) -> str:
    name = f"tieline-{plan.name}"
    cluster = {"server": plan.api_url, "certificate-authority-data": _encoded(plan.certificate("ca"))}
    credentials = {
        "client-certificate-data": _encoded(plan.certificate(user)),
        "client-key-data": _encoded(plan.key(user)),
    }
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _client(name: str, user: str, group: str | None = None) -> dict[str, Any]:
    organisations = [group] if group else []
    empty: dict[str, Any] = {"dnsNames": [], "addresses": [], "server": False}
    return {"name": name, "commonName": user, "organisations": organisations, **empty, "client": True}


def _server(name: str, names: list[str], addresses: list[str], *, client: bool = False) -> dict[str, Any]:
    subject = {"name": name, "commonName": names[0], "organisations": []}
    return {**subject, "dnsNames": names, "addresses": addresses, "server": True, "client": client}
