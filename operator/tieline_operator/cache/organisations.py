"""Which organisation a namespace is, and namespaces that carry the id of another one."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tieline_core.identity.ids import derived_id, parse_time
from tieline_core.identity.organisations import holder, labelled_id
from tieline_core.kubernetes import Change
from tieline_operator.apply.conditions import ORGANISATION_MISSING, ORGANISATION_TAKEN
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, in_progress
from tieline_operator.cache.cluster_cache import Lister

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OrganisationClaim:
    """The id that a namespace carries."""

    id: str
    older: str | None = None
    """The namespace that has the id, where this one only carries it as well."""


def organisation(namespaces: Lister, name: str) -> OrganisationClaim | None:
    """The id that the namespace ``name`` carries; None where it carries none."""
    found = namespaces.get(None, name)
    identifier = labelled_id(found) if found else None
    if identifier is None:
        return None
    first = holder(namespaces.by_index("organisation", identifier))
    return OrganisationClaim(id=identifier, older=first if first != name else None)


def not_an_organisation(namespaces: Lister, name: str) -> Outcome | None:
    """The outcome for objects in the namespace ``name`` while that is no organisation; None while it is one.

    The message has a command that makes it one.
    """
    found, claim = namespaces.get(None, name), organisation(namespaces, name)
    if found is None:
        return in_progress(ORGANISATION_MISSING, f"Namespace {name} is being looked up")
    if claim and not claim.older:
        return None
    metadata = found["metadata"]
    suggestion = derived_id(created=parse_time(metadata["creationTimestamp"]), seed=metadata["uid"])
    command = f"`kubectl label --overwrite namespace {name} tieline.dev/organisation={suggestion}`"
    if claim is None:
        return failed(
            ORGANISATION_MISSING, f"Namespace {name} is no organisation: give it an id with {command}"
        )
    return failed(
        ORGANISATION_TAKEN,
        f"Namespace {name} carries the id of the organisation that the older namespace {claim.older} is, "
        f"so it is none; give it an id of its own with {command}",
    )


def with_organisation_check(namespaces: Lister, namespace: str, plan: Plan) -> Plan:
    """The plan; where it succeeds although ``namespace`` is no organisation, with that as its outcome."""
    outcome = not_an_organisation(namespaces, namespace) if plan.outcome.status == "True" else None
    return replace(plan, outcome=outcome) if outcome else plan


def duplicates(namespaces: Lister) -> Mapping[str, OrganisationClaim]:
    """The namespaces that carry the id of an older one."""
    found = {}
    for namespace in list(namespaces.list()):
        name = namespace["metadata"]["name"]
        claim = organisation(namespaces, name)
        if claim and claim.older:
            found[name] = claim
    return found


@dataclass(eq=False)
class DuplicateOrganisationLog:
    """Logs each namespace that carries the id of an older one, and posts an Event on both."""

    namespaces: Lister
    post: Callable[[Object, Mapping[str, str]], None] = lambda _namespace, _logged: None
    """Takes a Namespace and the condition for its Event; only the leader posts it."""
    _logged: dict[str, OrganisationClaim] = field(default_factory=dict)

    def changed(self, change: Change) -> None:
        """Checks all namespaces that carry an id that the changed one carries or carried."""
        for state in (change.old, change.new):
            identifier = labelled_id(state) if state else None
            if identifier:
                for one in self.namespaces.by_index("organisation", identifier):
                    self._check(one)
        if change.new is None or labelled_id(change.new) is None:
            self._logged.pop(_name(change.object), None)

    def lead(self) -> None:
        """Posts the Events for what was found before this replica became the leader."""
        for name, claim in self._logged.items():
            namespace = self.namespaces.get(None, name)
            if namespace is not None:
                self._post_both(namespace, claim)

    def _check(self, namespace: Object) -> None:
        name = _name(namespace)
        claim = organisation(self.namespaces, name)
        if claim is None or not claim.older:
            self._logged.pop(name, None)
        elif self._logged.get(name) != claim:
            self._logged[name] = claim
            logger.warning(
                "Namespace carries the organisation of an older one, and is no organisation until it has another",
                extra={"namespace": name, "organisation": claim.id, "older": claim.older},
            )
            self._post_both(namespace, claim)

    def _post_both(self, namespace: Object, claim: OrganisationClaim) -> None:
        """The Event on the older namespace does not name the other one, which may belong to somebody else."""
        self.post(
            namespace,
            _warning(
                f"The older namespace {claim.older} has the organisation id {claim.id}, so this namespace is no "
                "organisation; remove the label tieline.dev/organisation, or write another ULID there"
            ),
        )
        older = self.namespaces.get(None, claim.older or "")
        if older is not None:
            self.post(
                older,
                _warning(
                    f"A younger namespace carries the organisation id {claim.id} of this namespace too; this one keeps "
                    "it. The operator's log and its metric tieline_operator_duplicate_organisations name the other"
                ),
            )


def _warning(message: str) -> dict[str, str]:
    return {"status": "False", "reason": ORGANISATION_TAKEN, "message": message}


def _name(namespace: Object) -> str:
    return str(namespace["metadata"]["name"])
