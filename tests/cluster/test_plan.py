"""What a cluster is made of, as far as it can be said without a machine."""

from ipaddress import IPv4Network
from itertools import pairwise
from pathlib import Path

import pytest

from tieline_cluster.definition.plan import FIRST_NODE_PORT, SLOTS, Options, Plan, fingerprint
from tieline_cluster.errors import ClusterError
from tieline_cluster.node.slots import conflicts


def make_plan(slot: int = 0, **options: object) -> Plan:
    given = Options.from_dict({"name": "dev", **options})
    return Plan(options=given, slot=slot, state=Path("/state/dev"), run=Path(f"/run/tieline/{slot}"))


def test_no_two_slots_share_a_port_a_subnet_or_a_name() -> None:
    plans = [make_plan(slot) for slot in range(SLOTS)]
    ports = [port for plan in plans for port in plan.ports.all()]
    assert len(set(ports)) == len(ports)
    subnets = [subnet for plan in plans for subnet in (plan.pod_subnet, plan.service_subnet)]
    assert not any(a.overlaps(b) for i, a in enumerate(subnets) for b in subnets[i + 1 :])
    for names in ({p.bridge for p in plans}, {p.table for p in plans}, {p.cgroup for p in plans}):
        assert len(names) == SLOTS
    ranges = [tuple(int(end) for end in plan.node_ports.split("-")) for plan in plans]
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    assert ranges[-1][1] <= 32767


def test_ports_stay_below_node_ports_and_the_kernels_own() -> None:
    assert max(make_plan(SLOTS - 1).ports.all()) < FIRST_NODE_PORT


def test_a_bridges_name_fits_the_kernels_fifteen_characters() -> None:
    assert len(make_plan(SLOTS - 1).bridge) <= 15


def test_chosen_subnets_and_ports_win_over_the_slots() -> None:
    plan = make_plan(3, port=20000, pod_subnet="172.20.0.0/16", service_subnet="172.21.0.0/16")
    assert plan.ports.api == 20000
    assert (str(plan.gateway), str(plan.dns_service)) == ("172.20.0.1", "172.21.0.10")


def test_a_slot_whose_subnet_the_machine_routes_elsewhere_is_not_taken() -> None:
    office = IPv4Network("10.96.12.0/24")
    assert conflicts(make_plan(0), [office]) == [office]
    assert conflicts(make_plan(1), [office]) == []


@pytest.mark.parametrize("name", ["", "a b", "../up", "ä", "a/b"])
def test_a_name_that_is_no_folders_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="letters, digits and hyphens"):
        make_plan(name=name)


def test_a_state_folder_too_long_for_sockets_is_refused_before_anything_starts() -> None:
    with pytest.raises(ClusterError, match="XDG_STATE_HOME"):
        Plan(options=Options(), slot=0, state=Path("/" + "x" * 80), run=Path("/run"))


def test_options_of_another_version_are_ignored_not_fatal() -> None:
    assert Options.from_dict({"name": "a", "from_the_future": 1}) == Options(name="a")


def test_a_fingerprint_tells_apart_what_only_differs_in_its_boundaries() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint("a", b"b") == fingerprint("a", "b")
