"""What each environment of an organisation gets of its quotas of environments and pods. Pure.

All Projects compute the same from the same objects, so they agree without asking each other. What runs stays: a quota
that is lowered stops nothing, and refuses what is new.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, environment_object_name, workload_name
from tieline_core.kubernetes.resources import DEPLOYMENTS, ENVIRONMENTS, NAMESPACES, PROJECTS
from tieline_core.resources.quotas import WHO_MAY_RAISE, OrganisationQuotas, Quotas, quotas_of
from tieline_operator.apply.conditions import is_terminating
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.metrics import QuotaUsage
from tieline_operator.workload.pods import Failure

QUOTA_EXCEEDED = "QuotaExceeded"
RECHECK_SECONDS = 30.0
"""No event says that another environment has left something."""
Place = tuple[str, str]
"""The names of a project and of an environment in it."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What an environment that has a version wants, and has."""

    place: Place
    wanted: int
    """Pods."""
    current: int | None = None
    """Pods that its Deployment is set to; None without one."""
    since: str = ""
    """When the environment was first seen; empty for one that is new."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What an environment gets."""

    replicas: int
    refusal: Failure | None = None
    """Why it gets no place at all."""
    shortage: Failure | None = None
    """Why it gets fewer pods than it wants."""


def grants(organisation: OrganisationQuotas, claims: Sequence[Claim]) -> Mapping[Place, Grant]:
    """What each environment gets. Those that have something come first, then the oldest."""
    quotas = organisation.quotas
    ordered = sorted(claims, key=_order)
    places = len(ordered) if quotas.environments is None else quotas.environments
    got = {claim.place: min(claim.current or 0, claim.wanted) for claim in ordered}
    used = sum(claim.current is not None for claim in ordered)
    left = None if quotas.replicas is None else quotas.replicas - sum(got.values())
    found = {}
    for claim in ordered:
        is_new = claim.current is None
        if is_new and (organisation.problem or used >= places):
            problem = organisation.problem or _environments_full(used, places)
            found[claim.place] = Grant(replicas=0, refusal=Failure(QUOTA_EXCEEDED, problem))
            continue
        used += is_new
        replicas = claim.wanted
        if left is not None:
            more = min(claim.wanted - got[claim.place], max(0, left))
            left -= more
            replicas = got[claim.place] + more
        found[claim.place] = Grant(replicas=replicas, shortage=_shortage(quotas.replicas, claim, replicas))
    return found


def claims_in(listers: Listers, namespace: str) -> Iterator[Claim]:
    """The claims of all environments of an organisation. It parses no Project: each reconcile reads all of them."""
    for project in listers[PROJECTS].list(namespace):
        if not is_terminating(project):
            yield from _claims(listers, project)


def quota_usage(listers: Listers, defaults: Quotas) -> Sequence[QuotaUsage]:
    """What organisations use of their quotas of environments and pods, by Deployments.

    A scrape calls it from another thread, so it parses nothing.
    """
    found = []
    for obj in listers[NAMESPACES].list():
        namespace = obj["metadata"]["name"]
        quotas = quotas_of(obj, defaults).quotas
        limits = {"environments": quotas.environments, "replicas": quotas.replicas}
        if organisation_of(listers, namespace) is None or not any(one is not None for one in limits.values()):
            continue
        current = [
            one["spec"].get("replicas", 1)
            for one in listers[DEPLOYMENTS].list(namespace)
            if ENVIRONMENT_ID_LABEL in one["metadata"].get("labels", {})
        ]
        used = {"environments": len(current), "replicas": sum(current)}
        found += [
            QuotaUsage(namespace=namespace, quota=name, used=used[name], limit=limit)
            for name, limit in limits.items()
            if limit is not None
        ]
    return found


def pods_wanted(replicas: int | None, *, suspended: bool, environment: Object | None) -> int:
    """How many pods an environment is to have: by its runtime, or as somebody has scaled its Environment."""
    if suspended:
        return 0
    if replicas is not None:
        return replicas
    scaled: int = environment["spec"].get("replicas", 1) if environment else 1
    return scaled


def _order(claim: Claim) -> tuple[bool, str, Place]:
    return claim.current is None, claim.since or "~", claim.place


def _claims(listers: Listers, project: Object) -> Iterator[Claim]:
    spec, metadata = project["spec"], project["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    usual = (spec.get("runtime") or {}).get("replicas")
    seen = {
        one["name"]: one.get("createdAt", "") for one in project.get("status", {}).get("environments") or ()
    }
    for item in spec.get("environments") or ():
        if item.get("version") is None:
            continue
        environment = item["name"]
        replicas = (item.get("runtime") or {}).get("replicas")
        deployment = listers[DEPLOYMENTS].get(namespace, workload_name(name, environment))
        yield Claim(
            place=(name, environment),
            wanted=pods_wanted(
                usual if replicas is None else replicas,
                suspended=bool(item.get("suspended")),
                environment=listers[ENVIRONMENTS].get(namespace, environment_object_name(name, environment)),
            ),
            current=deployment["spec"].get("replicas", 1) if deployment else None,
            since=seen.get(environment, ""),
        )


def _environments_full(used: int, quota: int) -> str:
    return (
        f"the organisation has {used} environments of {quota} (quota environments); delete one that you do not need, "
        f"or {WHO_MAY_RAISE}"
    )


def _shortage(quota: int | None, claim: Claim, replicas: int) -> Failure | None:
    if quota is None or replicas >= claim.wanted:
        return None
    return Failure(
        QUOTA_EXCEEDED,
        f"it gets {replicas} of {claim.wanted} pods, because the organisation's environments may have {quota} together "
        f"(quota replicas); lower the replicas of an environment, or {WHO_MAY_RAISE}",
    )
