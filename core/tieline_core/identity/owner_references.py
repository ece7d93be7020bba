"""Whose an object is: the owner references by which Kubernetes takes children away with their owner."""

from collections.abc import Mapping
from typing import Any

from tieline_core.objects import ObjectView


def owner_reference(owner: ObjectView, *, controller: bool = False) -> dict[str, Any]:
    """What makes a child go when ``owner`` goes; ``controller`` says that it is managed by ``owner`` too."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **({"controller": True, "blockOwnerDeletion": False} if controller else {}),
    }


def is_owned(obj: ObjectView, uid: str) -> bool:
    """Whether ``obj`` goes when the object with this uid goes; another of that one's name is not it."""
    return any(one.get("uid") == uid for one in obj["metadata"].get("ownerReferences") or ())


def controller_of(obj: ObjectView) -> Mapping[str, Any] | None:
    """The owner reference of the controller of ``obj``; Kubernetes allows one."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


def controlled_by_another(obj: ObjectView, uid: str) -> bool:
    """Whether the controller of ``obj`` is another object than the one with this uid."""
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") != uid
