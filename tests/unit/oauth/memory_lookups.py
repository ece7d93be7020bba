"""Look-ups over objects in memory, as resolving needs them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tieline_core.credentials.linker import canonical, credential_ids, lent_certificates
from tieline_core.identity.ids import object_id

ACME = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OWNER = "01BX5ZZKBKACTAV9WEVGEMMVRZ"
NAMESPACES = {ACME: "acme", OWNER: "owner"}
TOKEN_URL = "https://login.shop.example/token"


def make(kind: str, name: str, /, *, namespace: str = "acme", day: int = 1, **spec: Any) -> dict[str, Any]:
    """An object of ours as the API server would give it."""
    return {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()[:32],
            "creationTimestamp": f"2026-01-{day:02}T00:00:00Z",
        },
        "spec": spec,
    }


def oauth2(identifier: str = "oauth", *, grant: str = "authorizationCode", **fields: Any) -> dict[str, Any]:
    """An OAuth 2.0 scheme; ``client`` is the grant's sub-object."""
    client = fields.pop("client", {"clientId": "app"})
    return {
        "id": identifier,
        "type": "oauth2",
        "oauth2": {"tokenUrl": TOKEN_URL, "grant": {"type": grant, grant: client}, **fields},
    }


def system(*schemes: Mapping[str, Any], namespace: str = "acme", name: str = "shop") -> dict[str, Any]:
    return make(
        "System",
        name,
        namespace=namespace,
        name=name,
        domain="shop.example",
        templateBaseUrl="https://shop.example",
        authSchemeConfigs=list(schemes),
    )


def credential(
    identifier: str = "main", kind: str = "oauth2-token", scheme: str = "oauth", **more: Any
) -> dict[str, Any]:
    return {
        "id": identifier,
        "type": kind,
        "authSchemeConfigId": scheme,
        "secretRef": {"name": identifier},
        **more,
    }


class MemoryLookups:
    """All objects and Secrets in lists."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects = list(objects)
        self.secrets: dict[tuple[str, str], dict[str, bytes]] = {}
        self.namespaces = dict(NAMESPACES)
        self.secret_reads = 0

    def put_secret(self, name: str, namespace: str = "acme", **values: str) -> None:
        self.secrets[namespace, name] = {key: value.encode() for key, value in values.items()}

    def system(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._one("System", namespace, name)

    def connection(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        by_id = (obj for obj in self._all("Connection", namespace) if object_id(obj) == name.upper())
        return self._one("Connection", namespace, name) or next(by_id, None)

    def certificate_holders(self, namespace: str, system: str) -> Sequence[Mapping[str, Any]]:
        return [o for o in self._all("Connection", namespace) if lent_certificates(o) == system]

    def holders(self, namespace: str, credential_id: str) -> Sequence[Mapping[str, Any]]:
        found = self._all("Connection", namespace)
        return [obj for obj in found if canonical(credential_id) in credential_ids(obj)]

    def grants(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        return self._all("CredentialGrant", namespace)

    def organisation_of(self, namespace: str) -> str | None:
        return next((key for key, value in self.namespaces.items() if value == namespace), None)

    def namespace_of(self, organisation: str) -> str | None:
        return self.namespaces.get(organisation)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        self.secret_reads += 1
        return self.secrets.get((namespace, name))

    def _all(self, kind: str, namespace: str) -> list[Mapping[str, Any]]:
        return [o for o in self.objects if o["kind"] == kind and o["metadata"]["namespace"] == namespace]

    def _one(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return next((o for o in self._all(kind, namespace) if o["metadata"]["name"] == name), None)
