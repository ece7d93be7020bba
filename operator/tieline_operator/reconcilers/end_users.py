"""EndUser: is the external id unique in the organisation?"""

from dataclasses import dataclass
from datetime import datetime

from tieline_core.kubernetes.resources import END_USERS
from tieline_core.resources import EndUser
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers.uniqueness import earlier_claimant, id_conflict


@dataclass(frozen=True, kw_only=True)
class ObservedEndUser:
    """An EndUser, and who has its external id already."""

    user: EndUser
    id_conflict: Outcome | None = None
    older_holder: str | None = None


async def reconcile(cache: ClusterCache, obj: Object, now: datetime) -> Plan:
    """Observes the EndUser and plans."""
    user = EndUser.read(obj)
    key = joined(user.namespace, user.spec.external_id)
    return plan(
        ObservedEndUser(
            user=user,
            id_conflict=id_conflict(obj, cache[END_USERS]),
            older_holder=earlier_claimant(obj, cache[END_USERS].by_index("external", key)),
        )
    )


def plan(observed: ObservedEndUser) -> Plan:
    """Ready unless an older user has the same external id."""
    if observed.id_conflict:
        return Plan(outcome=observed.id_conflict)
    if observed.older_holder:
        external = observed.user.spec.external_id
        message = f'The older EndUser "{observed.older_holder}" has the externalId "{external}" too; delete one of them'
        return Plan(outcome=failed("ExternalIdTaken", message))
    return Plan(outcome=ready("Valid", "The user can be activated"))
