"""Permission: Kubernetes RBAC decides, asked by SubjectAccessReview."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission, roles_granting
from tieline_api.auth.ttl_cache import TtlCache
from tieline_api.cluster.organisations import Organisation
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import SUBJECT_ACCESS_REVIEWS
from tieline_core.resources.kinds import GROUP

_CACHED_ANSWERS = 50_000
_REFUSED_SECONDS = 2.0
# Whoever may not even list projects must not learn that the organisation exists.
MEMBERSHIP = Permission("list", "projects")


class Access:
    """What callers may do; answers are kept for seconds (refusals shorter, people wait for those to change)."""

    def __init__(
        self,
        kube: Kube,
        *,
        seconds: float = 10.0,
        away_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``away_seconds``: how much longer an answer counts while Kubernetes is away."""
        self._kube = kube
        self._seconds = seconds
        self._cache: TtlCache[tuple[object, ...], bool] = TtlCache(
            size=_CACHED_ANSWERS, grace=away_seconds, clock=clock
        )

    async def check(
        self, caller: Caller, organisation: Organisation, permissions: Iterable[Permission]
    ) -> None:
        """Raises ApiError: 403 for what is missing, 404 for those who are no members at all."""
        missing = [
            permission
            for permission in permissions
            if not await self.allowed(caller, organisation.namespace, permission)
        ]
        if not missing:
            return
        if not await self.allowed(caller, organisation.namespace, MEMBERSHIP):
            raise errors.organisation_not_found(organisation.id)
        names = ", ".join(str(permission) for permission in missing)
        roles = roles_granting(missing)
        advice = f"the role {' or '.join(roles)}" if roles else "a role that grants it"
        raise errors.forbidden(
            f"You may not do this: it needs the permission to {names} ({GROUP}) in the namespace "
            f"{organisation.namespace}; ask its administrators for {advice} there"
        )

    async def allowed(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Whether RBAC lets ``caller`` do this in ``namespace``."""

        async def ask() -> tuple[bool, float]:
            allowed = await self.review(caller, namespace, permission)
            return allowed, self._seconds if allowed else _REFUSED_SECONDS

        return await self._cache.get((caller.key(), namespace, permission), ask)

    async def review(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Asks Kubernetes whether ``caller`` may do this in ``namespace`` (empty: in all); no answer is kept.

        End users have no rights in Kubernetes, whatever somebody has bound to names such as theirs.
        """
        if caller.end_user is not None:
            return False
        attributes = {
            "namespace": namespace,
            "verb": permission.verb,
            "group": permission.group,
            "resource": permission.resource,
        }
        if permission.name:
            attributes["name"] = permission.name
        spec: dict[str, Any] = {
            "user": caller.username,
            "groups": list(caller.groups),
            "resourceAttributes": attributes,
        }
        if caller.uid:
            spec["uid"] = caller.uid
        if caller.extra:
            spec["extra"] = {key: list(values) for key, values in caller.extra.items()}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._kube.create(SUBJECT_ACCESS_REVIEWS, review)
        return bool(answer.get("status", {}).get("allowed"))
