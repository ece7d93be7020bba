"""CredentialGrant: are the credentials there that another organisation may use?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_core.credentials.linker import LinkedCredential, Problem, granted
from tieline_core.kubernetes.resources import CREDENTIAL_GRANTS
from tieline_core.resources import CredentialGrant
from tieline_core.resources.credential_grants import GrantedCredential
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.reconcilers.uniqueness import id_conflict

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ObservedGrant:
    """A CredentialGrant, and what its credentials are."""

    grant: CredentialGrant
    organisation: str | None
    """The organisation that the namespace is."""
    id_conflict: Outcome | None = None
    found: Sequence[tuple[GrantedCredential, LinkedCredential | Problem]]


async def reconcile(cache: ClusterCache, obj: Object, now: datetime) -> Plan:
    """Observes the CredentialGrant and plans."""
    grant = CredentialGrant.read(obj)
    directory = CacheDirectory(cache)
    return plan(
        ObservedGrant(
            grant=grant,
            organisation=directory.organisation_of(grant.namespace),
            id_conflict=id_conflict(obj, cache[CREDENTIAL_GRANTS]),
            found=[(given, granted(directory, grant.namespace, given)) for given in grant.spec.to],
        )
    )


def plan(observed: ObservedGrant) -> Plan:
    """Ready when every credential can be used; usable ones are granted in any case."""
    problems = [found for _, found in observed.found if isinstance(found, Problem)]
    status = {"credentials": [_status(given, found) for given, found in observed.found]}
    return Plan(outcome=observed.id_conflict or _outcome(observed, problems), status=status)


def _outcome(observed: ObservedGrant, problems: Sequence[Problem]) -> Outcome:
    if observed.organisation is None:
        return failed(
            "NotAnOrganisation",
            f"Namespace {observed.grant.namespace} is no organisation, so nobody can name its credentials; "
            "label it with tieline.dev/organisation, and an id that no older namespace has",
        )
    if problems:
        return failed(problems[0].reason, "; ".join(problem.message for problem in problems))
    # A column of kubectl shows the first item of a list only, so the message names them.
    lent = _listed([found.id for _, found in observed.found if isinstance(found, LinkedCredential)])
    borrowers = _listed([one.organisation_id for one in observed.grant.spec.from_])
    return ready("Granted", f"Credential {lent} may be used by organisation {borrowers}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _status(given: GrantedCredential, found: LinkedCredential | Problem) -> dict[str, object]:
    status: dict[str, object] = {"connection": given.connection, "credentialId": given.credential_id}
    if isinstance(found, Problem):
        return {**status, "errors": [found.message]}
    return {**status, "id": found.id, "tokenUrls": sorted(found.urls or ())}
