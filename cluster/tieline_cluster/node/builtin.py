"""The built-in cluster: Kubernetes' own components as processes of this machine."""

import json
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tieline_cluster.commands import run
from tieline_cluster.definition import components, config_files
from tieline_cluster.definition.busybox import ensure_busybox
from tieline_cluster.definition.certificates import ensure_certificates
from tieline_cluster.definition.components import Component
from tieline_cluster.definition.hyperkube import Binaries, ensure_binaries
from tieline_cluster.definition.nats_server import ensure_nats_server
from tieline_cluster.definition.plan import Options, Plan, Ports, fingerprint
from tieline_cluster.errors import ClusterError
from tieline_cluster.files import write_if_changed
from tieline_cluster.image_build import debian_packages
from tieline_cluster.image_build.builder import ImageBuilder
from tieline_cluster.image_build.static_image import StaticImage, engine_image, pause_image
from tieline_cluster.interface import Cluster
from tieline_cluster.node import cgroups, network, shared_machine, slots
from tieline_cluster.node.containerd import image_names, import_image
from tieline_cluster.node.control import STOP_GRACE, Control
from tieline_cluster.node.readiness import (
    client_context,
    default_account_exists,
    node_is_ready,
    wait_until,
)
from tieline_cluster.paths import clusters_folder, run_folder
from tieline_cluster.progress import Progress

OTHER_RUN_TIMEOUT = 900.0


class BuiltIn:
    """A ClusterProvider; `options` are fields of Options, and what is not given is as the cluster was made with.

    With `install`, `up` installs the Debian packages that are missing, those for building images too.
    """

    provider = "builtin"

    def __init__(self, *, name: str, progress: Progress, install: bool = False, **options: Any) -> None:
        self._progress = progress
        self._install = install
        self._state = clusters_folder() / name
        given = {key: value for key, value in options.items() if value is not None}
        self.options = replace(Options.from_dict(self._stored().get("options", {})), **given, name=name)

    def up(self) -> Cluster:
        """Bring the cluster up; what runs as it should is left alone."""
        if self.options.node:
            if self._install:
                debian_packages.install_missing(
                    debian_packages.NODE_PACKAGES | debian_packages.IMAGE_PACKAGES, self._progress
                )
            debian_packages.require(debian_packages.NODE_PACKAGES, purpose="A cluster with a node")
        binaries = ensure_binaries(self._progress)
        with self._alone():
            plan = self._plan()
            ensure_certificates(plan, binaries)
            control = Control(plan)
            if self._is_healthy(plan, binaries, control):
                self._progress.note(f"Cluster {plan.name} is up")
                return self._cluster(plan)
            started = time.monotonic()
            control.end_strays()
            self._start(plan, binaries, control)
            self._progress.note(f"Cluster {plan.name} is up after {time.monotonic() - started:.1f} s")
        return self._cluster(plan)

    def down(self, *, keep_data: bool = False) -> None:
        """Take the cluster down, whatever state it is in, and remove what it made."""
        with self._alone():
            # Its folder may have been deleted by hand: the slot's own folder still tells.
            slot = self._stored().get("slot", slots.claimed(run_folder(), self._state))
            if slot is None:
                shared_machine.delete_folder(self._state)
                self._progress.note(f"No cluster {self.options.name}")
                return
            plan = self._unclaimed(slot)
            with self._progress.step(f"Taking {plan.name} down"):
                self._remove(plan, keep_data=keep_data)

    def running(self) -> Cluster | None:
        """The cluster, if its API server runs."""
        slot = self._stored().get("slot")
        if slot is None:
            return None
        plan = self._unclaimed(slot)
        return self._cluster(plan) if "kube-apiserver" in Control(plan).running() else None

    def components(self) -> dict[str, int]:
        """The process number of each component that runs."""
        slot = self._stored().get("slot")
        running = {} if slot is None else Control(self._unclaimed(slot)).running()
        return {name: process.pid for name, process in running.items()}

    def ports(self) -> Ports:
        """Where its components listen. Raises ClusterError where there is no cluster."""
        return self._unclaimed(slot=self._slot()).ports

    def build_images(self, *, context: Path, targets: Sequence[str]) -> Mapping[str, str]:
        """Build with buildah, on a base image made by debootstrap, and load what the cluster does not have yet."""
        plan = self._running_node()
        present = image_names(plan)
        names = {}
        for target in targets:
            image = ImageBuilder(self._progress).build(context=context, target=target)
            if image.name not in present:
                with self._progress.step(f"Loading {image.name}"):
                    import_image(plan, image.archive())
            names[target] = image.name
        return names

    def engine_image(self) -> str:
        """An image of nats-server with BusyBox, loaded unless the cluster has it."""
        plan = self._running_node()
        image = engine_image(ensure_nats_server(self._progress), ensure_busybox(self._progress))
        name = f"tieline.local/engine:{image.tag}"
        if name not in image_names(plan):
            with self._progress.step(f"Loading {name}"):
                _import(plan, image, name)
        return name

    def load_image(self, archive: Path) -> None:
        """Load an archive into the cluster's containerd."""
        with self._progress.step(f"Loading {archive}"):
            import_image(self._running_node(), archive)

    def _running_node(self) -> Plan:
        if self.running() is None or not self.options.node:
            raise ClusterError(f"The cluster {self.options.name} has no node that runs: bring it up first")
        return self._unclaimed(self._stored()["slot"])

    def _slot(self) -> int:
        slot: int | None = self._stored().get("slot")
        if slot is None:
            raise ClusterError(f"There is no cluster {self.options.name}: bring it up first")
        return slot

    def _stored(self) -> dict[str, Any]:
        try:
            stored: dict[str, Any] = json.loads((self._state / "cluster.json").read_text())
        except (OSError, ValueError):
            return {}
        return stored

    def _unclaimed(self, slot: int) -> Plan:
        return Plan(options=self.options, slot=slot, state=self._state, run=run_folder() / str(slot))

    def _plan(self) -> Plan:
        """The plan with a claimed slot, stored so that every later command finds the cluster."""
        stored = self._stored()
        routed = network.routed_subnets() if self.options.node else []
        plan = slots.claim(self._unclaimed, known=stored.get("slot"), routed=routed)
        if stored and Options.from_dict(stored["options"]).service_subnet != self.options.service_subnet:
            raise ClusterError(
                f"The Services of {plan.name} have their addresses already: take it down first"
            )
        described = {"slot": plan.slot, "options": asdict(self.options)}
        write_if_changed(self._state / "cluster.json", json.dumps(described), mode=0o600)
        return replace(plan, node_address=network.node_address()) if self.options.node else plan

    def _cluster(self, plan: Plan) -> Cluster:
        return Cluster(
            provider=self.provider,
            name=plan.name,
            kubeconfig=plan.kubeconfig,
            has_nodes=plan.options.node,
            host_reachable=plan.options.node,
            audit_log=plan.log("audit") if plan.options.audited else None,
            volumes=plan.state / "volumes" if plan.options.node else None,
        )

    def _is_healthy(self, plan: Plan, binaries: Binaries, control: Control) -> bool:
        self._write_configuration(plan, keep_names=True)
        context = client_context(plan)
        if not all(control.healthy(_all(plan, binaries), context)):
            return False
        node = not plan.options.node or (network.network_is_up(plan) and node_is_ready(plan, context))
        return node and default_account_exists(plan, context)

    def _write_configuration(self, plan: Plan, *, keep_names: bool) -> None:
        """Write the files that the components read; with `keep_names` the Corefile stays if there is one."""
        if plan.options.audited:
            write_if_changed(plan.config("audit.yaml"), config_files.audit_policy(plan.options.audit))
        if not plan.options.node:
            return
        filtered = network.bridged_packets_are_filtered()
        write_if_changed(plan.config("kubelet.yaml"), config_files.kubelet(plan))
        write_if_changed(plan.config("proxy.yaml"), config_files.proxy(plan, masquerade_all=not filtered))
        write_if_changed(plan.config("containerd.toml"), config_files.containerd(plan))
        write_if_changed(plan.config("cni") / "10-tieline.conflist", config_files.cni(plan))
        if keep_names and plan.config("Corefile").exists():
            return
        upstream = network.answering_name_servers()
        write_if_changed(plan.config("Corefile"), config_files.corefile(plan, upstream=upstream))

    def _start(self, plan: Plan, binaries: Binaries, control: Control) -> None:
        node = plan.options.node
        if node:
            self._write_configuration(plan, keep_names=False)
            with self._progress.step("Preparing the node"):
                self._prepare_node(plan, binaries, control)
        with self._progress.step("Starting etcd"):
            control.start([components.etcd(plan, binaries)])
        context = client_context(plan)
        with self._progress.step("Starting the API server"):
            control.start([components.apiserver(plan, binaries)], context)
        with self._progress.step("Starting controllers" + (", kubelet, services and DNS" if node else "")):
            if node:
                manifest = config_files.base_objects(plan)
                kubectl = [str(binaries.hyperkube), "kubectl", "--kubeconfig", str(plan.kubeconfig)]
                run([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-"], stdin=manifest)
            control.start(_after_api(plan, binaries), context)
        with self._progress.step("Waiting for " + ("the node" if node else "the default ServiceAccount")):
            wait_until(lambda: default_account_exists(plan, context), what="The default ServiceAccount")
            if node:
                wait_until(lambda: node_is_ready(plan, context), what=f"The node {plan.node_name}")

    def _prepare_node(self, plan: Plan, binaries: Binaries, control: Control) -> None:
        shared_machine.prepare(plan)
        holder, containerd = components.holder(plan, binaries), components.containerd(plan)
        if not (control.current(holder) and control.current(containerd)):
            control.end_node()
        cgroups.make(plan.cgroup)
        network.raise_network(plan)
        programs = plan.state / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        (programs / "nft").symlink_to(binaries.hyperkube)
        control.start([holder])
        control.start([containerd])
        if config_files.PAUSE_IMAGE not in image_names(plan):
            _import(plan, pause_image(binaries.pause), config_files.PAUSE_IMAGE)

    def _remove(self, plan: Plan, *, keep_data: bool) -> None:
        Control(plan).end_all(grace=STOP_GRACE if keep_data else 0)
        if plan.options.node:
            network.remove_network(plan)
        slots.release(plan, last=lambda: shared_machine.restore(plan))
        if keep_data:
            return
        shared_machine.delete_folder(self._state)
        for folder in (self._state.parent, self._state.parent.parent):
            with suppress(OSError):
                folder.rmdir()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One run at a time for each cluster: a socket's name in the abstract namespace is free when its owner ends."""
        deadline = time.monotonic() + OTHER_RUN_TIMEOUT
        name = f"\0tieline-cluster {fingerprint(self._state)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            waiting = False
            while True:
                try:
                    lock.bind(name)
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise ClusterError(
                            f"Another run for {self.options.name} is still going on"
                        ) from error
                if not waiting:
                    self._progress.note(f"Waiting for another run for {self.options.name} to end")
                waiting = True
                time.sleep(0.1)
            yield


def _import(plan: Plan, image: StaticImage, name: str) -> None:
    with tempfile.NamedTemporaryFile(dir=plan.run, suffix=".tar") as archive:
        archive.write(image.archive(name))
        archive.flush()
        import_image(plan, Path(archive.name))


def _after_api(plan: Plan, binaries: Binaries) -> Sequence[Component]:
    if not plan.options.node:
        return components.controllers(plan, binaries)
    nft = shutil.which("nft", path=components.SYSTEM_PATH) or "nft"
    services = components.services(plan, binaries, nft=nft, programs=plan.state / "programs")
    return (*components.controllers(plan, binaries), components.kubelet(plan, binaries), *services)


def _all(plan: Plan, binaries: Binaries) -> Sequence[Component]:
    control_plane = components.etcd(plan, binaries), components.apiserver(plan, binaries)
    node = (components.holder(plan, binaries), components.containerd(plan)) if plan.options.node else ()
    return (*control_plane, *node, *_after_api(plan, binaries))
