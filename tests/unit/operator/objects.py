"""Objects as the API server would give them, with defaults for what a test does not care about."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_core.credentials.validation.secret_facts import ValueFacts
from tieline_core.identity.ids import format_time

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "acme"
ORGANISATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def obj(kind: str, name: str, *, age: float = 600, **content: Any) -> dict[str, Any]:
    """An object of ours that was created ``age`` seconds ago."""
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": hashlib.sha256(f"{kind}/{name}".encode()).hexdigest()[:32],
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": format_time(NOW - timedelta(seconds=age)),
        **content.pop("metadata", {}),
    }
    return {"apiVersion": "tieline.dev/v1alpha1", "kind": kind, "metadata": metadata, **content}


def system(name: str = "shop", **spec: Any) -> dict[str, Any]:
    schemes = [{"id": "basic", "type": "basic-auth"}, {"id": "oauth", "type": "none"}]
    base = {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": "https://shop.example",
        "authSchemeConfigs": schemes,
    }
    return obj("System", name, spec={**base, **spec})


def connection(name: str = "login", *, age: float = 600, title: str = "", **spec: Any) -> dict[str, Any]:
    credential = {
        "id": "main",
        "authSchemeConfigId": "basic",
        "type": "basic-auth",
        "secretRef": {"name": "login"},
    }
    base = {"name": title or name, "systemRef": {"name": "shop"}, "credentials": [credential]}
    return obj("Connection", name, age=age, spec={**base, **spec})


def secret(name: str = "login", *keys: str) -> dict[str, Any]:
    """A Secret as the cache keeps it."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
    values = ValueFacts(keys=frozenset(keys or ("username", "password")))
    return {"metadata": metadata, "type": "tieline.dev/credential", "values": values, "tokens": None}


def template(name: str = "shop-template", *, age: float = 600, **spec: Any) -> dict[str, Any]:
    base = {
        "name": "shop",
        "projectRef": {"name": "order-sync"},
        "environment": "production",
        "systemRef": {"name": "shop"},
    }
    return obj("ConnectionTemplate", name, age=age, spec={**base, **spec})


def activation(name: str = "for-ann", *, age: float = 600, status: Any = None, **spec: Any) -> dict[str, Any]:
    base = {
        "projectRef": {"name": "order-sync"},
        "environment": "production",
        "endUserRef": {"name": "ann"},
    }
    return obj("Activation", name, age=age, spec={**base, **spec}, status=status or {})


def end_user(name: str = "ann", *, age: float = 600, external: str = "42") -> dict[str, Any]:
    return obj("EndUser", name, age=age, spec={"externalId": external, "displayName": name})


def project(name: str = "order-sync", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    base = {
        "name": "Order sync",
        "source": {"files": [{"filename": "main.py", "content": "print('one')\n"}]},
        "environments": [{"name": "production", "version": "latest"}],
    }
    return obj("Project", name, spec={**base, **spec}, status=status or {})


def namespace(
    name: str = NAMESPACE, *, organisation: str | None = ORGANISATION, age: float = 0
) -> dict[str, Any]:
    """A Namespace; ``age`` in seconds."""
    labels = {"tieline.dev/organisation": organisation} if organisation else {}
    metadata = {
        "name": name,
        "uid": "ns",
        "resourceVersion": "1",
        "creationTimestamp": format_time(NOW - timedelta(seconds=age)),
        "labels": labels,
    }
    return {"metadata": metadata}


def notification_channel(name: str = "ops", **spec: Any) -> dict[str, Any]:
    base = {
        "name": "Operations",
        "type": "webhook",
        "webhook": {"url": "https://hooks.example/tieline", "secretRef": {"name": "signing"}},
    }
    return obj("NotificationChannel", name, spec={**base, **spec})


def notification(name: str = "tell-ops", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    base = {
        "name": "Tell operations",
        "projectRef": {"name": "order-sync"},
        "environment": "production",
        "channelRef": {"name": "ops"},
    }
    return obj("Notification", name, spec={**base, **spec}, status=status or {})
