"""Whether the operator may write to an object that has the name of a child. Pure.

The names of children follow from names that people choose, so an object of that name may belong to somebody else.
Such an object is never changed or deleted: the owner of the child reports it in its Ready condition.
"""

from collections.abc import Mapping
from typing import Any

from tieline_core.identity.ids import ID_LABEL
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL
from tieline_core.identity.owner_references import controlled_by_another, controller_of, is_owned
from tieline_core.kubernetes import Resource
from tieline_operator.apply.plan import Child, Creation, Object, Refusal

NOT_OWNED = "NotOwned"
CONTENT_DIFFERS = "ContentDiffers"

# Labels that identify an object without an owner as the child.
_IDENTITY_LABELS = (ENVIRONMENT_ID_LABEL, ID_LABEL)
# The content of an immutable object: two of one name that differ in one of these are not the same.
_CONTENT = (("binaryData",), ("spec", "digest"), ("spec", "projectRef"), ("spec", "connectorRef"))


def may_write(actual: Object, uid: str, labels: Mapping[str, str]) -> bool:
    """Whether ``actual`` is a child of the owner with this uid.

    It is when that owner controls it. An object without any owner (``kubectl delete --cascade=orphan``, a restore that
    leaves owner references out) is adopted when its labels carry the same identity as ``labels``.
    """
    if controlled_by_another(actual, uid):
        return False
    if is_owned(actual, uid):
        return True
    present = actual["metadata"].get("labels") or {}
    expected = [(name, labels[name]) for name in _IDENTITY_LABELS if name in labels]
    orphan = not actual["metadata"].get("ownerReferences")
    return orphan and any(present.get(name) == value for name, value in expected)


def child_refusal(child: Child, actual: Object) -> Refusal | None:
    """Why ``actual`` is not the object that ``child`` describes."""
    owner = _owner(child.desired)
    if may_write(actual, owner["uid"], child.desired["metadata"].get("labels") or {}):
        return None
    return _not_owned(child, actual, owner)


def creation_refusal(creation: Creation, actual: Object) -> Refusal | None:
    """Why ``actual`` is not the immutable object that ``creation`` describes.

    An object without an owner is accepted when its content is the same: restores leave owner references out.
    """
    owner = _owner(creation.desired)
    owners = actual["metadata"].get("ownerReferences")
    if controlled_by_another(actual, owner["uid"]) or (owners and not is_owned(actual, owner["uid"])):
        return _not_owned(creation, actual, owner)
    if any(_at(creation.desired, path) != _at(actual, path) for path in _CONTENT):
        name = _named(creation.resource, actual)
        message = f"{name} exists already, and holds something else; delete it if nothing needs it"
        return Refusal(child=creation, reason=CONTENT_DIFFERS, message=message)
    return None


def _not_owned(child: Child | Creation, actual: Object, owner: Mapping[str, Any]) -> Refusal:
    name = _named(child.resource, actual)
    references = actual["metadata"].get("ownerReferences") or ()
    other = controller_of(actual) or next(iter(references), None)
    if other is None:
        message = (
            f"{name} exists already and has no owner, so it is left unchanged; "
            f"rename or delete it, or rename what needs it"
        )
        return Refusal(child=child, reason=NOT_OWNED, message=message)
    if (other.get("kind"), other.get("name")) == (owner["kind"], owner["name"]):
        message = (
            f"{name} belongs to a {owner['kind']} of the same name that was deleted; Kubernetes removes it"
        )
        return Refusal(child=child, reason=NOT_OWNED, message=message, transient=True)
    message = (
        f'{name} belongs to {other.get("kind")} "{other.get("name")}", so it is left as it is; '
        "rename one of the two owners, or delete the object"
    )
    return Refusal(child=child, reason=NOT_OWNED, message=message)


def _owner(desired: Mapping[str, Any]) -> Mapping[str, Any]:
    owner: Mapping[str, Any] = desired["metadata"]["ownerReferences"][0]
    return owner


def _named(resource: Resource, actual: Object) -> str:
    return f'{resource.kind} "{actual["metadata"]["name"]}"'


def _at(obj: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value or None
