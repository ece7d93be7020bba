"""Roles that REST gives: RoleBindings in the organisation's namespace, of Tieline's own roles."""

import asyncio
import hashlib

from tieline_api import errors
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission, permissions_of
from tieline_api.schemas.access import RoleBindingCreate
from tieline_api.views.access import BY_REST
from tieline_core.objects import Object

_RBAC = "rbac.authorization.k8s.io"
_AT_ONCE = 16
_NAMED = 5


async def check_grant(access: Access, caller: Caller, role: str, namespace: str) -> None:
    """ApiError 403 where the role may do something that the caller may not."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def may(power: Permission) -> bool:
        async with gate:
            return await access.review(caller, namespace, power)

    powers = permissions_of(f"tieline-{role}")
    found = await asyncio.gather(*map(may, powers))
    beyond = [str(power) for power, has in zip(powers, found, strict=True) if not has]
    if beyond:
        names = ", ".join(beyond[:_NAMED]) + (" and more" if len(beyond) > _NAMED else "")
        raise errors.forbidden(
            f"The role {role} may do more than you in the namespace {namespace} ({names}): "
            "ask a user who has these permissions to assign it"
        )


def manifest(body: RoleBindingCreate, namespace: str) -> Object:
    """The RoleBinding. Its name follows from what it says, so nobody gets a role twice."""
    subject: Object = {"kind": body.subject.kind, "name": body.subject.name}
    if body.subject.kind == "ServiceAccount":
        subject["namespace"] = body.subject.namespace or namespace
    else:
        subject["apiGroup"] = _RBAC
    text = "\n".join(str(subject.get(key, "")) for key in ("kind", "namespace", "name"))
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": f"tieline-{body.role}-{hashlib.sha256(text.encode()).hexdigest()[:16]}",
            "namespace": namespace,
            "labels": dict(BY_REST),
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"tieline-{body.role}"},
        "subjects": [subject],
    }
