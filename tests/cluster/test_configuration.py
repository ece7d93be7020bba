"""The files and command lines that the components are started with."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster.test_plan import make_plan
from tieline_cluster.definition import components, config_files
from tieline_cluster.definition.certificates import certificate_requests
from tieline_cluster.definition.hyperkube import Binaries, version_flags
from tieline_cluster.errors import ClusterError
from tieline_cluster.node.network import rules
from tieline_cluster.node.shared_machine import mounts_below

BINARIES = Binaries(hyperkube=Path("/cache/hyperkube"), pause=Path("/cache/pause"))


def test_pods_can_verify_the_api_server_by_its_services_address() -> None:
    plan = make_plan()
    (server,) = [one for one in certificate_requests(plan) if one["name"] == "apiserver"]
    assert str(plan.api_service) in server["addresses"]
    assert {"kubernetes.default.svc", "localhost"} <= set(server["dnsNames"])


def test_the_kubelet_is_who_the_node_authoriser_expects() -> None:
    plan = make_plan(name="Try")
    (kubelet,) = [one for one in certificate_requests(plan) if one["name"] == "kubelet"]
    assert (kubelet["commonName"], kubelet["organisations"]) == ("system:node:tieline-try", ["system:nodes"])


def test_without_a_node_nothing_listens_but_on_loopback() -> None:
    argv = components.apiserver(make_plan(node=False), BINARIES).argv
    assert "--bind-address=127.0.0.1" in argv


def test_with_a_node_other_machines_are_kept_from_the_open_ports() -> None:
    plan = make_plan()
    assert f"tcp dport {{ {plan.ports.api}, {plan.ports.kubelet} }} drop" in rules(plan)


@pytest.mark.parametrize(("fsync", "flag"), [(True, "false"), (False, "true")])
def test_etcd_waits_for_the_disk_unless_told_otherwise(fsync: bool, flag: str) -> None:
    assert f"--unsafe-no-fsync={flag}" in components.etcd(make_plan(fsync=fsync), BINARIES).argv


def test_requests_are_logged_only_when_asked() -> None:
    quiet, audited = (components.apiserver(make_plan(audit=audit), BINARIES) for audit in ("off", "changes"))
    assert not any("audit" in part for part in quiet.argv)
    assert make_plan().config("audit.yaml") in audited.inputs


def test_the_audit_log_of_accounts_has_all_of_theirs_but_the_controllers() -> None:
    controllers, accounts, others = yaml.safe_load(config_files.audit_policy("accounts"))["rules"]
    assert controllers == {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]}
    assert accounts == {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}
    assert others == {"level": "None"}


def test_the_audit_log_of_changes_leaves_reads_out() -> None:
    policy = yaml.safe_load(config_files.audit_policy("changes"))
    assert policy["rules"][0] == {"level": "None", "verbs": ["get", "list", "watch"]}
    assert policy["rules"][-1] == {"level": "Metadata"}


def test_a_full_disk_evicts_no_pod() -> None:
    kubelet = yaml.safe_load(config_files.kubelet(make_plan()))
    assert set(kubelet["evictionHard"].values()) == {"0%"}
    assert "featureGates" not in kubelet


def test_the_longest_wait_after_crashes_can_be_shortened() -> None:
    kubelet = yaml.safe_load(config_files.kubelet(make_plan(crash_loop_max=10)))
    assert kubelet["crashLoopBackOff"] == {"maxContainerRestartPeriod": "10s"}
    assert kubelet["featureGates"] == {"KubeletCrashLoopBackOffMax": True}


def test_unknown_names_fail_at_once_where_no_name_server_answers() -> None:
    offline = config_files.corefile(make_plan(), upstream=[])
    assert "NXDOMAIN" in offline
    assert "forward" not in offline
    assert "forward . 192.0.2.53" in config_files.corefile(make_plan(), upstream=["192.0.2.53"])


def test_the_pod_network_is_the_plans() -> None:
    plan = make_plan(2)
    (bridge,) = json.loads(config_files.cni(plan))["plugins"]
    assert bridge["bridge"] == plan.bridge
    assert bridge["ipam"]["ranges"] == [[{"subnet": str(plan.pod_subnet), "gateway": str(plan.gateway)}]]


def test_the_components_report_the_version_of_the_sources_they_are_built_from() -> None:
    flags = version_flags("require (\n\tk8s.io/kubectl v0.34.4\n\tk8s.io/kubernetes v1.34.4\n)\n")
    assert "gitVersion=v1.34.4" in flags
    assert "gitMinor=34" in flags
    with pytest.raises(ClusterError):
        version_flags("module x\n")


def test_mounts_are_removed_from_the_deepest_up_and_only_inside() -> None:
    mountinfo = "\n".join(
        f"1 0 8:1 / {point} rw - ext4 /dev/x rw"
        for point in ("/", "/state/dev/a", r"/state/dev/a/with\040space", "/state/dev2")
    )
    assert mounts_below(Path("/state/dev"), mountinfo) == ["/state/dev/a/with space", "/state/dev/a"]
