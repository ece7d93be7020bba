"""Whose an object is: the owner references by which Kubernetes takes children away with their owner."""

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]


def owner_reference(owner: Object) -> dict[str, Any]:
    """What makes a child go when ``owner`` goes."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def is_owned(obj: Object, uid: str) -> bool:
    """Whether ``obj`` goes when the object with this uid goes; another of that one's name is not it."""
    return any(one.get("uid") == uid for one in obj["metadata"].get("ownerReferences") or ())
