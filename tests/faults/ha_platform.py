"""The platform of one history: two operators and two APIs as processes, each with a relay of its own to Kubernetes.

Processes of this machine can be killed, paused and given a clock of their own; project pods are real ones. Operators
and APIs have just the rights of deploy/base, and each is a ServiceAccount of its own in the API server's audit log.
"""

from __future__ import annotations

import base64
import json
import platform
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.faults.cluster import FaultyCluster
from tests.faults.shop import Shop
from tests.faults.socket_owner import sender_of
from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation, install_definitions, make_organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.ports import free_port, free_ports
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_process import RunningProcess
from tests.harness.processes.tcp_relay import Relay, through_relay
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import ORGANISATION_LABEL

PLATFORM = "faults-platform"
LEASE = "tieline-operator"
OPERATORS = ("operator-a", "operator-b")
APIS = ("api-a", "api-b")
ENGINES = ("engine-a", "engine-b", "engine-c")
FAKETIME = Path(f"/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketime.so.1")
"""Where Debian's libfaketime is."""
TRACES_DISK = "2m"
"""A tiny file system of its own for each API's traces, which ends with its process."""
_READY = 90.0


@dataclass
class Replica:
    """One process of the platform, and its way to Kubernetes."""

    name: str
    process: RunningProcess
    relay: Relay
    wanted: bool = True
    skew: int = 0
    """Seconds that its clock is ahead."""


@dataclass
class Stage:
    """Everything that runs. ``started`` is in the calling thread; processes end with it."""

    cluster: FaultyCluster
    folder: Path
    mark: str
    image: str = ""
    """Of project pods; this checkout's where it is empty."""
    replicas: dict[str, Replica] = field(default_factory=dict)
    engines: dict[str, NatsServer] = field(default_factory=dict)
    _spawner: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _closing: ExitStack = field(default_factory=ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Brings up all of it."""
        made = self.cluster.up()
        self.kubectl: Kubectl = self.cluster.kubectl(made)
        self.kubeconfig = made.kubeconfig
        self.node = self._node_address()
        self.image = self.image or self.cluster.runtime_image()
        self._engine()
        self._install()
        # Of an earlier history on a cluster that was kept.
        self.kubectl("delete", "namespace", "-l", ORGANISATION_LABEL, "--wait=false")
        self.shop = Shop(self.node, self.mark, self._sender)
        self._closing.enter_context(self.shop)
        self.organisation = self.organise()
        for name in OPERATORS:
            self._operator(name)
        for name in APIS:
            self._api(name)
        self._service()
        self.token = self.token_in(self.organisation)
        for replica in self.replicas.values():
            self.begin(replica)
        for replica in self.replicas.values():
            self.await_ready(replica)

    def stop(self) -> None:
        """Ends every process that it started; the cluster stays."""
        for replica in self.replicas.values():
            replica.process.signal(signal.SIGCONT)
            replica.process.signal(signal.SIGKILL)
        for engine in self.engines.values():
            engine.signal(signal.SIGCONT)
            engine.kill()
        self._closing.close()
        self._spawner.shutdown()

    def organise(self) -> Organisation:
        """Another organisation."""
        made = make_organisation(self.kubectl)
        self.kubectl("label", "namespace", made.namespace, "pod-security.kubernetes.io/enforce=restricted")
        return made

    def token_in(self, organisation: Organisation) -> str:
        """An administrator's token, good for the whole history."""
        self.kubectl("create", "serviceaccount", "admin", namespace=organisation.namespace)
        account = f"--serviceaccount={organisation.namespace}:admin"
        role = ["rolebinding", "admin", "--clusterrole=tieline-admin", account]
        self.kubectl("create", *role, namespace=organisation.namespace)
        made = self.kubectl("create", "token", "admin", "--duration=6h", namespace=organisation.namespace)
        return made.stdout.strip()

    @property
    def api_urls(self) -> list[str]:
        return [
            process.url for name in APIS if isinstance(process := self.replicas[name].process, RunningApi)
        ]

    def traces_disk(self, name: str) -> Path | None:
        """The file system with an API's traces as this process can reach it."""
        pid = self.replicas[name].process.pid
        return Path(f"/proc/{pid}/root{self.folder}/{name}/disk") if pid else None

    def begin(self, replica: Replica) -> None:
        """Starts a replica with its present clock, and does not wait."""
        variables: dict[str, str] = getattr(replica.process, "variables")  # noqa: B009 (of both kinds)
        for key in ("LD_PRELOAD", "FAKETIME", "DONT_FAKE_MONOTONIC"):
            variables.pop(key, None)
        if replica.skew:
            # The wall clock alone: what lasts is measured with the monotonic one, which no clock setting moves.
            variables |= {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME": f"{replica.skew:+d}",
                "DONT_FAKE_MONOTONIC": "1",
            }
        with self._lock:
            if replica.process.pid is None:
                self._spawner.submit(replica.process.spawn).result(30)

    def begin_engine(self, engine: NatsServer) -> None:
        """Starts a server of the engine, and does not wait."""
        self._spawner.submit(engine.spawn).result(30)

    def await_ready(self, replica: Replica) -> None:
        """Returns once it works, or waits for its Lease."""
        if isinstance(replica.process, RunningOperator):
            _until(f"{replica.name} stands by", replica.process.stands_by)
        else:
            _until(f"{replica.name} is ready", replica.process.ready)

    def revive(self) -> list[str]:
        """Starts again what should run and does not; their names. Processes end by themselves when a Lease is lost."""
        dead = [one for one in self.replicas.values() if one.wanted and one.process.pid is None]
        for replica in dead:
            self.begin(replica)
        return [replica.name for replica in dead]

    def _sender(self, port: int) -> str:
        running = {name: pid for name, one in self.replicas.items() if (pid := one.process.pid)}
        return sender_of(port, running)

    def _node_address(self) -> str:
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json").stdout)["items"]
        addresses = nodes[0]["status"]["addresses"]
        return str(next(one["address"] for one in addresses if one["type"] == "InternalIP"))

    def _engine(self) -> None:
        """Three servers that keep each stream three times, as in deploy/overlays/highly-available."""
        trust = EngineTrust()
        ports = free_ports(3 * len(ENGINES))
        routes = tuple(f"nats://{self.node}:{port}" for port in ports[:3])
        for number, name in enumerate(ENGINES):
            folder = self.folder / name
            folder.mkdir(parents=True)
            self.engines[name] = NatsServer(
                folder=folder,
                port=ports[3 + number],
                monitoring_port=ports[6 + number],
                host=self.node,
                cluster_port=ports[number],
                routes=routes,
                name=name,
                trust=trust,
            )
        for engine in self.engines.values():
            self.begin_engine(engine)
        for name, engine in self.engines.items():
            _until(f"{name} is ready", engine.ready)

    @property
    def engine_urls(self) -> str:
        return ",".join(engine.url for engine in self.engines.values())

    def _install(self) -> None:
        install_definitions(self.kubectl, "-k", str(ROOT / "crds"))
        apply = ("apply", "--server-side", "--force-conflicts")
        self.kubectl(*apply, "-f", str(ROOT / "deploy" / "base" / "roles.yaml"))
        self.kubectl("create", "namespace", PLATFORM, check=False)
        first = next(iter(self.engines.values()))
        trust = first.trust.to_values() | {"encryption-key": first.encryption_key}
        objects: list[dict[str, Any]] = [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "tieline-engine-trust", "namespace": PLATFORM},
                "stringData": trust,
            }
        ]
        for part, names in (("operator", OPERATORS), ("api", APIS)):
            for document in yaml.safe_load_all((ROOT / "deploy" / "base" / f"{part}-rbac.yaml").read_text()):
                objects += _bound(document, names)
            objects += [
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": name, "namespace": PLATFORM},
                }
                for name in names
            ]
        self.kubectl(*apply, "-f", "-", stdin=yaml.safe_dump_all(objects))

    def _way(self, name: str) -> tuple[Relay, Path, Path]:
        folder = self.folder / name
        folder.mkdir(parents=True)
        config = yaml.safe_load(self.kubeconfig.read_text())
        token = self.kubectl("create", "token", name, "--duration=6h", namespace=PLATFORM).stdout.strip()
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        own = folder / "own"
        own.write_text(yaml.safe_dump(config))
        relay, path = through_relay(own, folder / "kubeconfig")
        return relay, path, folder / "log"

    def _operator(self, name: str) -> None:
        relay, kubeconfig, log = self._way(name)
        variables = {
            "TIELINE_NAMESPACES": "",
            "TIELINE_LEASE_NAMESPACE": PLATFORM,
            "TIELINE_RUNTIME_IMAGE": self.image,
            "TIELINE_API_URL": f"http://tieline-api.{PLATFORM}.svc",
            "TIELINE_EGRESS_ALLOWED": f"{self.node}/32",
            "TIELINE_ENGINE_URL": self.engine_urls,
            "TIELINE_ENGINE_REPLICAS": str(len(ENGINES)),
        }
        process = RunningOperator(kubeconfig=kubeconfig, namespaces=(PLATFORM,), log=log, variables=variables)
        self.replicas[name] = Replica(name, process, relay)

    def _api(self, name: str) -> None:
        relay, kubeconfig, log = self._way(name)
        disk = log.parent / "disk"
        disk.mkdir()
        mount = f'mount -t tmpfs -o size={TRACES_DISK} traces "$0" && exec "$@"'
        variables = {
            "TIELINE_TRACES_FILE": str(disk / "traces.db"),
            "TIELINE_EGRESS_ALLOWED": f"{self.node}/32",
            "TIELINE_RUNS_FILE": str(log.with_name("runs.db")),
            "TIELINE_ENGINE_URL": self.engine_urls,
            "TIELINE_ENGINE_CREDENTIALS_FILE": str(next(iter(self.engines.values())).credentials_file()),
            "TIELINE_ENGINE_SIGNER_FILE": str(next(iter(self.engines.values())).api_seed_file()),
            "TIELINE_RATE_LIMIT": "0",
            "TIELINE_FAILED_LIMIT": "0",
        }
        process = RunningApi(
            kubeconfig=kubeconfig, log=log, variables=variables, host=self.node, port=free_port()
        )
        process.prefix = ("unshare", "--mount", "sh", "-c", mount, str(disk))
        self.replicas[name] = Replica(name, process, relay)

    def _service(self) -> None:
        """What pods know as the API: a Service whose endpoints are the processes."""
        port = {"name": "http", "port": 80, "protocol": "TCP"}
        metadata = {"name": "tieline-api", "namespace": PLATFORM}
        objects: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}
        ]
        for name in APIS:
            process = self.replicas[name].process
            assert isinstance(process, RunningApi)
            labels = {"kubernetes.io/service-name": "tieline-api"}
            objects.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {"name": name, "namespace": PLATFORM, "labels": labels},
                    "addressType": "IPv4",
                    "ports": [{**port, "port": process.internal_port}],
                    "endpoints": [{"addresses": [self.node], "conditions": {"ready": True}}],
                }
            )
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))


def secret_manifest(name: str, values: dict[str, str]) -> dict[str, Any]:
    """A credential's Secret."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": {"name": name},
        "data": data,
    }


def _bound(document: dict[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A role as it is, and a binding for the processes' own accounts."""
    metadata = {"name": document["metadata"]["name"]}
    if "Cluster" not in document["kind"]:
        metadata["namespace"] = PLATFORM
    made = {**document, "metadata": metadata}
    if "Binding" in document["kind"]:
        made["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": PLATFORM} for name in names]
    return [made]


def _until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY
    while time.monotonic() < deadline:
        with suppress(OSError):
            if condition():
                return
        time.sleep(0.2)
    raise AssertionError(f"After {_READY:.0f} s: not {what}")
