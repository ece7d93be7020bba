"""Reading what may not be there, and the data of Secrets."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Protocol

from tieline_core.kubernetes.errors import NotFound
from tieline_core.kubernetes.resources import Resource
from tieline_core.objects import Object, ObjectView


class Reader(Protocol):
    """Reads one object from the API server."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object: ...


async def find(kube: Reader, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    """The object, or None where there is none."""
    try:
        return await kube.get(resource, name, namespace)
    except NotFound:
        return None


def secret_values(secret: ObjectView) -> dict[str, bytes]:
    """The data of a Secret."""
    return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}


def texts_of(values: Mapping[str, bytes]) -> dict[str, str]:
    """Values as text; bytes that are no UTF-8 become replacement characters."""
    return {key: value.decode("utf-8", "replace") for key, value in values.items()}
