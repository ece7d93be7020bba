"""Which organisation a namespace is, what is recorded of it, and namespaces that carry the id of another one."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tieline_core.identity.ids import ORGANISATION_LABEL, derived_id, parse_id, parse_time
from tieline_core.identity.organisations import Records, holder, labelled_id, recorded_id, records_of
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.conditions import ORGANISATION_CHANGED, ORGANISATION_MISSING, ORGANISATION_TAKEN
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, in_progress
from tieline_operator.cache.cluster_cache import Lister, Listers

logger = logging.getLogger(__name__)

PREVIOUS_ANNOTATION = "tieline.dev/previous-organisation"
"""On a Namespace: the id that its label may be changed from (the policy tieline-organisation-labels)."""
MOST_RECORDS = 10_000
"""They fit into a ConfigMap, which holds 1 MiB."""


@dataclass(frozen=True, kw_only=True)
class OrganisationClaim:
    """The id that a namespace carries."""

    id: str
    holder: str | None = None
    """The namespace that has the id, where this one only carries it as well."""
    recorded: str | None = None
    """The id of the organisation that this namespace is, where it carries another one."""

    @property
    def refused(self) -> bool:
        """Whether the namespace is no organisation although it carries an id."""
        return bool(self.holder or self.recorded)


def organisation(listers: Listers, name: str) -> OrganisationClaim | None:
    """The id that the namespace ``name`` carries; None where it carries none."""
    found = listers[r.NAMESPACES].get(None, name)
    identifier = labelled_id(found) if found else None
    if identifier is None:
        return None
    records = records_in(listers)
    if records.get(identifier) == name:
        return OrganisationClaim(id=identifier)
    first = holder_of(listers, identifier) or records.get(identifier)
    if first is not None and first != name:
        return OrganisationClaim(id=identifier, holder=first)
    return OrganisationClaim(id=identifier, recorded=recorded_id(records, name))


def organisation_of(listers: Listers, namespace: str) -> str | None:
    """The id of the organisation that a namespace is; None where it is none."""
    claim = organisation(listers, namespace)
    return claim.id if claim and not claim.refused else None


def holder_of(listers: Listers, identifier: str) -> str | None:
    """The namespace that is the organisation with this id; None where none is."""
    claimants = listers[r.NAMESPACES].by_index("organisation", identifier)
    return holder(identifier, claimants, records_in(listers))


def records_in(listers: Listers) -> Records:
    """Which namespace is which organisation, as recorded."""
    return records_of(listers[r.ORGANISATION_RECORDS].list())


def not_an_organisation(listers: Listers, name: str) -> Outcome | None:
    """The outcome for objects in the namespace ``name`` while that is no organisation; None while it is one.

    The message has a command that makes it one: the one that it was, where that is recorded.
    """
    found, claim = listers[r.NAMESPACES].get(None, name), organisation(listers, name)
    if found is None:
        return in_progress(ORGANISATION_MISSING, f"Namespace {name} is being looked up")
    if claim and not claim.refused:
        return None
    known = recorded_id(records_in(listers), name)
    if claim is None and known:
        return failed(
            ORGANISATION_MISSING,
            f"Namespace {name} has lost its label tieline.dev/organisation: give it its id back with "
            f"`{_command(found, known)}`. With another id, its events and runs would be lost",
        )
    if claim is None:
        return failed(
            ORGANISATION_MISSING,
            f"Namespace {name} is no organisation: give it an id with `{_command(found, _own_id(found))}`",
        )
    if claim.recorded:
        return failed(
            ORGANISATION_CHANGED,
            f"Namespace {name} is the organisation {claim.recorded}, but its label holds {claim.id}: set it back with "
            f"`{_command(found, claim.recorded)}`. An organisation keeps its id while it has objects "
            "of Tieline, because its events and runs belong to that id",
        )
    return failed(
        ORGANISATION_TAKEN,
        f"Namespace {name} carries the id of the organisation that the namespace {claim.holder} is, "
        f"so it is none; give it an id of its own with "
        f"`{_command(found, known or _own_id(found))}`",
    )


def _own_id(namespace: Object) -> str:
    metadata = namespace["metadata"]
    return derived_id(created=parse_time(metadata["creationTimestamp"]), seed=metadata["uid"])


def _command(namespace: Object, identifier: str) -> str:
    """A command that sets the label. The policy tieline-organisation-labels asks for the exact value before."""
    name = namespace["metadata"]["name"]
    label = f"kubectl label --overwrite namespace {name} {ORGANISATION_LABEL}={identifier}"
    carried = (namespace["metadata"].get("labels") or {}).get(ORGANISATION_LABEL)
    if not carried:
        return label
    return f"kubectl annotate --overwrite namespace {name} {PREVIOUS_ANNOTATION}={carried} && {label}"


def with_organisation_check(listers: Listers, namespace: str, plan: Plan) -> Plan:
    """The plan; where it succeeds although ``namespace`` is no organisation, with that as its outcome."""
    outcome = not_an_organisation(listers, namespace) if plan.outcome.status == "True" else None
    return replace(plan, outcome=outcome) if outcome else plan


def duplicates(listers: Listers) -> Mapping[str, OrganisationClaim]:
    """The namespaces that carry the id of another one."""
    found = {}
    for namespace in list(listers[r.NAMESPACES].list()):
        name = namespace["metadata"]["name"]
        claim = organisation(listers, name)
        if claim and claim.holder:
            found[name] = claim
    return found


def updated_records(
    records: Records,
    namespaces: Iterable[Object],
    *,
    in_use: Callable[[str], bool],
    released: Collection[str],
) -> Records:
    """The records as they should be. ``namespaces`` are all that are served.

    A namespace keeps its id while it is ``in_use`` (it has objects of Tieline), whatever its label says; one that is
    gone until it is among the ``released``. Of new ones that carry the same id, the oldest gets it. What is no id in
    its canonical form was not written by the operator, and goes.
    """
    carried = {one["metadata"]["name"]: labelled_id(one) for one in namespaces}
    kept = {
        identifier: name
        for identifier, name in records.items()
        if parse_id(identifier) == identifier
        and (carried[name] == identifier or in_use(name) if name in carried else name not in released)
    }
    recorded = set(kept.values())
    for one in sorted(namespaces, key=_age):
        name = one["metadata"]["name"]
        identifier = carried[name]
        if identifier and identifier not in kept and name not in recorded and len(kept) < MOST_RECORDS:
            kept[identifier] = name
            recorded.add(name)
    return kept


def _age(namespace: Object) -> tuple[str, str]:
    metadata = namespace["metadata"]
    return metadata["creationTimestamp"], metadata["name"]


@dataclass(eq=False)
class DuplicateOrganisationLog:
    """Logs each namespace that carries the id of another one, and posts an Event on both."""

    listers: Listers
    post: Callable[[Object, Mapping[str, str]], None] = lambda _namespace, _logged: None
    """Takes a Namespace and the condition for its Event; only the leader posts it."""
    _logged: dict[str, OrganisationClaim] = field(default_factory=dict)

    @property
    def _namespaces(self) -> Lister:
        return self.listers[r.NAMESPACES]

    def changed(self, change: Change) -> None:
        """Checks all namespaces that carry an id that the changed one carries or carried."""
        for state in (change.old, change.new):
            identifier = labelled_id(state) if state else None
            if identifier:
                for one in self._namespaces.by_index("organisation", identifier):
                    self._check(one)
        if change.new is None or labelled_id(change.new) is None:
            self._logged.pop(_name(change.object), None)

    def recorded(self, _change: Change) -> None:
        """Checks all namespaces: the records may be read after them, and say who has an id."""
        for one in list(self._namespaces.list()):
            if labelled_id(one):
                self._check(one)

    def lead(self) -> None:
        """Posts the Events for what was found before this replica became the leader."""
        for name, claim in self._logged.items():
            namespace = self._namespaces.get(None, name)
            if namespace is not None:
                self._post_both(namespace, claim)

    def _check(self, namespace: Object) -> None:
        name = _name(namespace)
        claim = organisation(self.listers, name)
        if claim is None or not claim.holder:
            self._logged.pop(name, None)
        elif self._logged.get(name) != claim:
            self._logged[name] = claim
            logger.warning(
                "Namespace carries the organisation of another one, and is no organisation until it has its own",
                extra={"namespace": name, "organisation": claim.id, "holder": claim.holder},
            )
            self._post_both(namespace, claim)

    def _post_both(self, namespace: Object, claim: OrganisationClaim) -> None:
        """The Event on the namespace with the id does not name the other one, which may belong to others."""
        self.post(
            namespace,
            _warning(
                f"The namespace {claim.holder} has the organisation id {claim.id}, so this namespace is no "
                "organisation; remove the label tieline.dev/organisation, or write another ULID there. Before that, "
                f"set the annotation {PREVIOUS_ANNOTATION} to the label's value"
            ),
        )
        first = self._namespaces.get(None, claim.holder or "")
        if first is not None:
            self.post(
                first,
                _warning(
                    f"Another namespace carries the organisation id {claim.id} of this namespace too; this one keeps "
                    "it. The operator's log and its metric tieline_operator_duplicate_organisations name the other"
                ),
            )


def _warning(message: str) -> dict[str, str]:
    return {"status": "False", "reason": ORGANISATION_TAKEN, "message": message}


def _name(namespace: Object) -> str:
    return str(namespace["metadata"]["name"])
