"""EndUser: is the external id unique in the organisation?"""

from dataclasses import dataclass
from datetime import datetime

from tieline_core.kube.resources import END_USERS
from tieline_core.resources import EndUser
from tieline_operator.elders import elder, id_taken
from tieline_operator.indexes import joined
from tieline_operator.plans import Object, Outcome, Plan, failed, ready
from tieline_operator.world import World


@dataclass(frozen=True, kw_only=True)
class Observed:
    """An EndUser, and who has its external id already."""

    user: EndUser
    taken: Outcome | None = None
    namesake: str | None = None


async def reconcile(world: World, obj: Object, now: datetime) -> Plan:
    """Looks at the EndUser and decides."""
    user = EndUser.read(obj)
    key = joined(user.namespace, user.spec.external_id)
    older = elder(obj, world[END_USERS].by_index("external", key))
    return plan(
        Observed(
            user=user,
            taken=id_taken(obj, world[END_USERS]),
            namesake=older["metadata"]["name"] if older else None,
        )
    )


def plan(observed: Observed) -> Plan:
    """Ready unless an older user has the same external id."""
    if observed.taken:
        return Plan(outcome=observed.taken)
    if observed.namesake:
        external = observed.user.spec.external_id
        message = (
            f'The older EndUser "{observed.namesake}" has the externalId "{external}" too; delete one of them'
        )
        return Plan(outcome=failed("ExternalIdTaken", message))
    return Plan(outcome=ready("Valid", "The user can be activated"))
