"""The types of what stands in Kubernetes and in HTTP bodies, before it is parsed: plain JSON objects."""

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import ReadOnly, TypedDict

Json = dict[str, Any]
"""A JSON object."""
Object = dict[str, Any]
"""An object of Kubernetes as its API server has it."""
ObjectView = Mapping[str, Any]
"""The same, where it may be one of a cache: those are shared, and never changed."""


class OwnerReference(TypedDict):
    """The object that another one belongs to."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[str]
    name: ReadOnly[str]
    uid: ReadOnly[str]
    controller: NotRequired[ReadOnly[bool]]
    blockOwnerDeletion: NotRequired[ReadOnly[bool]]


class ManagedFields(TypedDict):
    """The fields that one manager set."""

    apiVersion: NotRequired[ReadOnly[str]]
    fieldsType: NotRequired[ReadOnly[str]]
    fieldsV1: NotRequired[ReadOnly[Json]]
    manager: NotRequired[ReadOnly[str]]
    operation: NotRequired[ReadOnly[str]]
    subresource: NotRequired[ReadOnly[str]]
    time: NotRequired[ReadOnly[str]]


class ObjectMeta(TypedDict):
    """The metadata of a stored object of a namespace: the part of Kubernetes' ObjectMeta that Tieline reads."""

    name: ReadOnly[str]
    namespace: ReadOnly[str]
    uid: ReadOnly[str]
    resourceVersion: ReadOnly[str]
    generation: ReadOnly[int]
    creationTimestamp: ReadOnly[str]
    deletionTimestamp: NotRequired[ReadOnly[str]]
    labels: NotRequired[ReadOnly[dict[str, str]]]
    annotations: NotRequired[ReadOnly[dict[str, str]]]
    ownerReferences: NotRequired[ReadOnly[list[OwnerReference]]]
    managedFields: NotRequired[ReadOnly[list[ManagedFields]]]
    """Caches drop it."""
