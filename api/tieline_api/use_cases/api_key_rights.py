"""Nobody makes an API key that may do more than they may.

Role bindings name the users of API keys, and these users may be bound before there is a key. So whoever may create keys
could take any role that a binding gives to such a user.
"""

import asyncio

from tieline_api import errors
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.memberships import PROBES
from tieline_api.auth.permissions import Permission

_RBAC = "rbac.authorization.k8s.io"
POWERS = (
    *(probe for probes in PROBES.values() for probe in probes),
    Permission("expose", "connections"),
    Permission("create", "apikeys"),
    Permission("create", "rolebindings"),
    Permission("get", "secrets", group=""),
    Permission("create", "secrets", group=""),
    Permission("create", "pods", group=""),
    Permission("patch", "deployments", group="apps"),
    Permission("create", "rolebindings", group=_RBAC),
    Permission("*", "*", group="*"),
)
"""What tells one role from a greater one, of Tieline's and of Kubernetes' own."""


async def check_rights(access: Access, caller: Caller, user: Caller, namespace: str) -> None:
    """ApiError 403 where ``user`` may do something in ``namespace`` that ``caller`` may not."""

    async def is_beyond(power: Permission) -> bool:
        return await access.review(user, namespace, power) and not await access.review(
            caller, namespace, power
        )

    found = await asyncio.gather(*(is_beyond(power) for power in POWERS))
    beyond = [power for power, is_more in zip(POWERS, found, strict=True) if is_more]
    if beyond:
        names = ", ".join(str(power) for power in beyond)
        raise errors.forbidden(
            f"The user {user.username} may do more than you in the namespace {namespace} ({names}): "
            "choose another user, or ask a user who has these permissions to create the key"
        )
