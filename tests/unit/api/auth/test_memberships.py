"""Which organisations a caller reaches, with which role, and how often Kubernetes is asked for that."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.memberships import PROBES, Memberships, role_of
from tieline_api.auth.permissions import ROLES, Permission
from tieline_api.cluster.organisations import Organisation
from tieline_core.kubernetes import Resource, Unavailable

ANN = Caller(username="ann")
MANY = [Organisation(id=f"{number:026d}", namespace=f"org-{number}") for number in range(40)]


class Rbac:
    """Answers access reviews by what was bound: rules by namespace, "" for all namespaces."""

    def __init__(self, **bound: str) -> None:
        self.bound = {name.replace("_", "-"): ROLES[f"tieline-{role}"] for name, role in bound.items()}
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.away = False

    async def create(self, _resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.away:
            raise Unavailable("down")
        wanted = review["spec"]["resourceAttributes"]
        self.asked.append(wanted["namespace"])
        return {"status": {"allowed": any(self._grants(name, wanted) for name in {"", wanted["namespace"]})}}

    def _grants(self, namespace: str, wanted: dict[str, str]) -> bool:
        rules = self.bound.get(namespace, {})
        return wanted["verb"] in rules.get(wanted["resource"], rules.get("*", frozenset()))


def _memberships(rbac: Rbac, **options: Any) -> Memberships:
    return Memberships(Access(rbac), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["viewer", "editor", "admin"])
async def test_the_roles_that_ship_are_told_by_their_names(role: str) -> None:
    assert await _memberships(Rbac(org_7=role)).of(ANN, MANY) == {"org-7": role}


async def test_a_role_in_the_whole_cluster_counts_in_each_organisation_and_costs_no_more() -> None:
    rbac = Rbac()
    rbac.bound[""] = ROLES["tieline-admin"]
    assert await _memberships(rbac).of(ANN, MANY) == {one.namespace: "admin" for one in MANY}
    assert set(rbac.asked) == {""}


async def test_rights_in_the_whole_cluster_and_in_one_organisation_add_up() -> None:
    rbac = Rbac(org_3="editor")
    rbac.bound[""] = ROLES["tieline-viewer"]
    found = await _memberships(rbac).of(ANN, MANY[:5])
    assert found == {
        "org-0": "viewer",
        "org-1": "viewer",
        "org-2": "viewer",
        "org-3": "editor",
        "org-4": "viewer",
    }


async def test_rights_that_are_none_of_the_roles_are_custom() -> None:
    rbac = Rbac()
    rbac.bound["org-1"] = {"projects": frozenset({"list", "patch"})}
    rbac.bound["org-2"] = {"systems": frozenset({"list", "watch"})}
    assert await _memberships(rbac).of(ANN, MANY) == {"org-1": "custom"}


async def test_a_stranger_costs_one_question_an_organisation_and_few_at_once() -> None:
    rbac = Rbac()
    assert await _memberships(rbac).of(ANN, MANY) == {}
    assert sorted(set(rbac.asked) - {""}) == sorted(one.namespace for one in MANY)
    assert len([one for one in rbac.asked if one]) == len(MANY)
    assert 2 <= rbac.most_at_once <= 16


async def test_answers_are_kept_for_a_while_and_many_who_ask_at_once_cause_one_look() -> None:
    now = 0.0
    rbac = Rbac(org_7="viewer")
    memberships = _memberships(rbac, seconds=10, clock=lambda: now)
    await asyncio.gather(*(memberships.of(ANN, MANY) for _ in range(5)))
    once = len(rbac.asked)
    now = 9.0
    await memberships.of(ANN, MANY)
    assert len(rbac.asked) == once
    now = 11.0
    rbac.bound["org-8"] = ROLES["tieline-editor"]
    assert await memberships.of(ANN, MANY) == {"org-7": "viewer", "org-8": "editor"}


async def test_an_organisation_that_has_gone_is_not_told_from_memory() -> None:
    memberships = _memberships(Rbac(org_7="viewer", org_8="viewer"))
    await memberships.of(ANN, MANY)
    assert await memberships.of(ANN, MANY[:8]) == {"org-7": "viewer"}


async def test_one_caller_never_gets_what_is_known_of_another() -> None:
    rbac = Rbac(org_7="viewer")
    memberships = _memberships(rbac)
    await memberships.of(ANN, MANY)
    rbac.bound.clear()
    assert await memberships.of(Caller(username="ann", groups=("ops",)), MANY) == {}
    limited = Caller(username="ann", organisations=frozenset({MANY[0].id}))
    assert await memberships.of(limited, MANY[:1]) == {}


async def test_while_kubernetes_is_away_the_error_says_so_and_nothing_goes_on_asking() -> None:
    rbac = Rbac()
    memberships = _memberships(rbac)
    rbac.away = True
    with pytest.raises(Unavailable):
        await memberships.of(ANN, MANY)
    assert rbac.at_once == 0


@given(st.frozensets(st.sampled_from([one for probes in PROBES.values() for one in probes])))
def test_a_role_is_told_only_where_all_that_it_grants_was_found_and_nothing_more(
    granted: frozenset[Permission],
) -> None:
    role = role_of(granted)
    if role == "custom":
        return
    rules = ROLES[f"tieline-{role}"]
    probes = [one for each in PROBES.values() for one in each]
    assert granted == {
        one for one in probes if one.verb in rules.get(one.resource, rules.get("*", frozenset()))
    }
