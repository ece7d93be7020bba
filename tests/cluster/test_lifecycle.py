"""Bringing real clusters up, killing them, and taking them down, beside other clusters on the machine."""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.residue import kill, kubectl, of_cluster, processes, slot_of
from tieline_cluster.commands import run
from tieline_cluster.definition.plan import Options, Plan
from tieline_cluster.errors import ClusterError
from tieline_cluster.node.builtin import BuiltIn
from tieline_cluster.paths import clusters_folder
from tieline_cluster.progress import Lines

pytestmark = pytest.mark.cluster

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def make(name: str, **options: object) -> BuiltIn:
    return BuiltIn(name=name, progress=Lines(), fsync=False, **options)


def run_pod(provider: BuiltIn, name: str) -> None:
    """A pod of the sandbox's own image, which is there without any build."""
    container = {
        "name": "pause",
        "image": "tieline.local/pause:1",
        "securityContext": CONTAINER_SECURITY,
    }
    spec = {
        "securityContext": POD_SECURITY,
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trial", "labels": RESTRICTED}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "trial"},
        "spec": spec,
    }
    for manifest in (namespace, pod):
        kubectl(provider, "apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    wait_for_pod(provider, name)


def wait_for_pod(provider: BuiltIn, name: str) -> None:
    kubectl(provider, "wait", "--for=condition=Ready", "--timeout=90s", "-n", "trial", f"pod/{name}")


def resolve(server: str, name: str) -> str:
    """The first IPv4 address that a DNS server has for a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.sendto(question, (server, 53))
        return socket.inet_ntoa(asking.recv(512)[-4:])


def test_a_running_cluster_that_is_brought_up_again_is_left_untouched(with_node: BuiltIn) -> None:
    before = with_node.components()
    with_node.up()
    assert with_node.components() == before


def test_restricted_pods_run_and_their_logs_can_be_read(with_node: BuiltIn) -> None:
    run_pod(with_node, "restricted")
    kubectl(with_node, "logs", "-n", "trial", "restricted")


def test_this_machine_reaches_services_and_their_names(with_node: BuiltIn) -> None:
    dns, api = (
        kubectl(with_node, "get", "service", "-n", namespace, name, "-o", "jsonpath={.spec.clusterIP}")
        for namespace, name in (("kube-system", "kube-dns"), ("default", "kubernetes"))
    )
    assert resolve(dns, "kubernetes.default.svc.cluster.local") == api
    with socket.create_connection((api, 443), timeout=5):
        pass


def test_the_audit_log_has_writes_and_no_reads(with_node: BuiltIn) -> None:
    run_pod(with_node, "audited")
    cluster = with_node.running()
    assert cluster is not None
    assert cluster.audit_log is not None
    requests = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    assert any(one["objectRef"].get("name") == "audited" for one in requests)
    assert {one["verb"] for one in requests} <= {"create", "update", "patch", "delete", "deletecollection"}


def test_after_everything_was_killed_the_next_up_brings_objects_and_pods_back(with_node: BuiltIn) -> None:
    run_pod(with_node, "survivor")
    cluster = with_node.running()
    assert cluster is not None
    kill(processes(cluster.kubeconfig.parent, slot_of(with_node)))
    with_node.up()
    kubectl(with_node, "get", "-n", "trial", "pod", "survivor")
    # The pod's old status may say ready until the kubelet has looked: what counts is a container that runs again.
    run_pod(with_node, "after-the-kill")
    wait_for_pod(with_node, "survivor")


def test_a_component_that_has_ended_is_started_again_and_the_others_go_on(with_node: BuiltIn) -> None:
    before = with_node.components()
    kill([before["kube-scheduler"]])
    with_node.up()
    after = with_node.components()
    assert after.pop("kube-scheduler") != before.pop("kube-scheduler")
    assert after == before


def test_a_reloaded_firewall_takes_no_cluster_away_for_long(with_node: BuiltIn) -> None:
    before = with_node.components()
    run(["nft", "delete", "table", "ip", f"tieline-{slot_of(with_node)}"])
    with_node.up()
    assert with_node.components() == before
    run(["nft", "list", "table", "ip", f"tieline-{slot_of(with_node)}"])


def test_two_clusters_live_side_by_side_and_one_goes_without_a_trace(with_node: BuiltIn) -> None:
    first = with_node.components()
    other = make("other")
    other.up()
    run_pod(other, "neighbour")
    state, slot = clusters_folder() / "other", slot_of(other)
    present = of_cluster(state, slot)
    assert all(
        present[kind] for kind in ("processes", "control groups", "nft tables", "interfaces", "folders")
    )
    other.down()
    assert {kind: traces for kind, traces in of_cluster(state, slot).items() if traces} == {}
    assert with_node.components() == first
    test_this_machine_reaches_services_and_their_names(with_node)


def test_a_run_that_was_killed_half_way_is_taken_up_by_the_next(own_state: Path) -> None:
    command = [sys.executable, "-m", "tieline_cluster.main", "up", "--name", "half", "--no-node"]
    log = clusters_folder() / "half" / "logs" / "kube-apiserver.log"
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ)
    while not log.exists():
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    provider = make("half", node=False)
    provider.up()
    kubectl(provider, "create", "namespace", "made")
    provider.down()
    assert not [*processes(clusters_folder() / "half", slot=-1)]


def test_a_cluster_without_a_node_keeps_its_data_when_asked(own_state: Path) -> None:
    provider = make("kept", node=False)
    provider.up()
    kubectl(provider, "create", "namespace", "kept")
    provider.down(keep_data=True)
    assert provider.running() is None
    provider.up()
    kubectl(provider, "get", "namespace", "kept")
    provider.down()
    assert not (clusters_folder() / "kept").exists()


def test_a_cluster_whose_folder_was_deleted_by_hand_can_still_be_taken_down(own_state: Path) -> None:
    make("lost", node=False).up()
    state = clusters_folder() / "lost"
    state.rename(own_state / "deleted")
    make("lost", node=False).down()
    assert not processes(state, slot=-1)


def test_a_component_that_fails_tells_the_end_of_its_log(own_state: Path) -> None:
    provider = make("failing", node=False)
    slot = slot_of_next(provider)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", slot.ports.etcd))
        taken.listen()
        with pytest.raises(ClusterError, match=r"(?s)etcd.*address already in use"):
            provider.up()
    provider.down()


def slot_of_next(provider: BuiltIn) -> Plan:
    """Give the cluster a slot by hand, so that one of its ports can be taken before it starts."""
    provider.up()
    slot = slot_of(provider)
    provider.down(keep_data=True)
    state = clusters_folder() / "failing"
    return Plan(options=Options(name="failing", node=False), slot=slot, state=state, run=Path("/run"))


def test_one_line_tells_how_to_bring_up_what_is_not_up(own_state: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tieline_cluster.main",
        "kubeconfig",
        "--name",
        "absent",
        "--provider",
        "builtin",
    ]
    with pytest.raises(ClusterError, match="tieline-cluster up --name absent"):
        run(command)


def test_images_are_built_loaded_and_run(with_node: BuiltIn, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM debian:bookworm-slim AS hello\n"
        "RUN python3 --version > /version\n"
        'COPY page /site/page\nUSER 65532:65532\nCMD ["python3", "-m", "http.server", "-d", "/site", "8080"]\n'
    )
    (tmp_path / "page").write_text("Hello")
    image = with_node.build_images(context=tmp_path, targets=["hello"])["hello"]
    assert with_node.build_images(context=tmp_path, targets=["hello"])["hello"] == image
    container = {
        "name": "web",
        "image": image,
        "securityContext": CONTAINER_SECURITY,
        "readinessProbe": {"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "securityContext": POD_SECURITY,
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    for manifest in (pod, service):
        kubectl(with_node, "apply", "-f", "-", stdin=json.dumps(manifest))
    kubectl(with_node, "wait", "--for=condition=Ready", "--timeout=90s", "pod/web")
    # From the pod by name through the Service and back to itself: names, Services and hairpins work.
    fetch = (
        "import time, urllib.request as request\n"
        "for attempt in range(50):\n"
        "    try:\n"
        "        print(request.urlopen('http://hello/page', timeout=5).read().decode()); break\n"
        "    except OSError as error:\n"
        "        print(error); time.sleep(0.2)\n"
    )
    assert kubectl(with_node, "exec", "web", "--", "python3", "-c", fetch).splitlines()[-1] == "Hello"
    assert "GET /page" in kubectl(with_node, "logs", "web")
