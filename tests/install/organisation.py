"""An organisation with one of everything that a release must not touch, and callers of what runs in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.harness.clients.constant_load import code_for_load
from tests.harness.cluster.deployed_platform import Tenant, project
from tests.harness.cluster.kubectl import Kubectl, make_organisation

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "shop-key"},
    "type": "tieline.dev/credential",
    "stringData": {"value": "k-1"},
}
SYSTEM = {
    "kind": "System",
    "metadata": {"name": "shop"},
    "spec": {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": "https://shop.example",
        "authSchemeConfigs": [
            {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
        ],
    },
}
CREDENTIAL = {"id": "key", "authSchemeConfigId": "key", "type": "string", "secretRef": {"name": "shop-key"}}
CONNECTION = {
    "kind": "Connection",
    "metadata": {"name": "shop"},
    "spec": {"name": "The shop", "systemRef": {"name": "shop"}, "credentials": [CREDENTIAL]},
}
TEMPLATE = {
    "kind": "ConnectionTemplate",
    "metadata": {"name": "shop"},
    "spec": {
        "name": "shop",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "systemRef": {"name": "shop"},
        "connectionRef": {"name": "shop"},
    },
}
USER = {"kind": "EndUser", "metadata": {"name": "ada"}, "spec": {"externalId": "u-1", "displayName": "Ada"}}
ACTIVATION = {
    "kind": "Activation",
    "metadata": {"name": "ada"},
    "spec": {
        "projectRef": {"name": "orders"},
        "environment": "production",
        "endUserRef": {"name": "ada"},
        "variables": {},
    },
}


def rolled_for_the_engine(tenant: Tenant) -> bool:
    """Whether one pod serves, with credentials for the event engine, which the previous release did not have."""
    pods = tenant.pods("orders")
    mounted = {
        volume.get("secret", {}).get("secretName", "") for pod in pods for volume in pod["spec"]["volumes"]
    }
    return len(pods) == 1 and any(name.endswith("-engine") for name in mounted)


def orders(says: str) -> dict[str, Any]:
    """The project, in a version that says this."""
    return project(code_for_load(says))


def populated(kubectl: Kubectl) -> Tenant:
    """A new organisation whose environment runs, and says ``one``, and whose every object is ready."""
    tenant = Tenant(kubectl=kubectl, namespace=make_organisation(kubectl).namespace)
    populate(tenant)
    return tenant


def populate(tenant: Tenant) -> None:
    """Makes it of the organisation in a namespace that is there."""
    objects: Sequence[dict[str, Any]] = (SYSTEM, CONNECTION, TEMPLATE, USER, ACTIVATION, orders("one"))
    tenant.apply(SECRET, *objects)
    tenant.until("orders", "running", within=120)
    names = [f"{item['kind'].lower()}/{item['metadata']['name']}" for item in objects]
    tenant.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *names, namespace=tenant.namespace)
