"""What a built-in cluster is made of: names, addresses, ports and places, all derived from a few options.

Pure: nothing here looks at the machine.
"""

import hashlib
from dataclasses import dataclass, fields
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Literal

from tieline_cluster.errors import ClusterError

SLOTS = 16
"""How many clusters can run side by side on one machine."""
FIRST_PORT = 27440
"""Below the kernel's ephemeral ports (32768 and up), and below the node ports (30000 and up)."""
PORTS_PER_SLOT = 16
FIRST_NODE_PORT = 30000
NODE_PORTS_PER_SLOT = 172
BRIDGE_PREFIX = "tieline"
LONGEST_STATE_PATH = 64
"""The kubelet listens on sockets below its folder, and a socket's path has at most 107 characters (unix(7))."""

Audit = Literal["off", "changes", "accounts"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a person can choose about a cluster.

    `node`: with a kubelet, a container runtime, DNS and services (needs root); without, it is an API server and its
    controllers, which is enough to test controllers.
    `fsync`: whether etcd waits for the disk; without, a crash of the machine can lose data, and writes are faster.
    `audit`: write the API server's requests (who, what, when; no bodies) to a file: `changes` are those that change
    something, `accounts` all of the cluster's ServiceAccounts, reads and refused ones too.
    `crash_loop_max`: the longest wait in seconds before a crashed container is started again (Kubernetes: 300).
    """

    name: str = "dev"
    node: bool = True
    fsync: bool = True
    audit: Audit = "off"
    crash_loop_max: int | None = None
    port: int | None = None
    pod_subnet: str | None = None
    service_subnet: str | None = None

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Options":
        """The options in `stored`, without what this version does not know."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in stored.items() if key in known})

    @property
    def audited(self) -> bool:
        """Whether requests are written to a file."""
        return self.audit in ("changes", "accounts")


@dataclass(frozen=True, kw_only=True)
class Ports:
    """A port for each listener of a cluster; those after `api` listen on loopback only, but for the kubelet."""

    api: int
    etcd: int
    etcd_peer: int
    etcd_metrics: int
    controller_manager: int
    scheduler: int
    kubelet: int
    kubelet_health: int
    proxy_health: int
    proxy_metrics: int
    dns_health: int

    @classmethod
    def starting_at(cls, first: int) -> "Ports":
        """Consecutive ports, in the order of the fields."""
        return cls(**{field.name: first + i for i, field in enumerate(fields(cls))})

    def all(self) -> tuple[int, ...]:
        """Every port."""
        return tuple(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A cluster's options together with its slot, its folders and the node's address."""

    options: Options
    slot: int
    state: Path
    """Data, certificates, configuration and logs: survives a restart of the machine."""
    run: Path
    """Sockets and what else is void once the machine has restarted."""
    node_address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not self.options.name.isascii() or not self.options.name.replace("-", "").isalnum():
            raise ClusterError(f"The name {self.options.name!r} may have letters, digits and hyphens only")
        if self.options.node and len(str(self.state)) > LONGEST_STATE_PATH:
            raise ClusterError(
                f"The folder {self.state} has too long a path for the sockets in it: set XDG_STATE_HOME to a folder "
                f"whose path is shorter (at most {LONGEST_STATE_PATH} characters with the cluster's name)"
            )

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.options.name

    @property
    def ports(self) -> Ports:
        """The ports of this slot, or those that start at the port that was asked for."""
        return Ports.starting_at(self.options.port or FIRST_PORT + PORTS_PER_SLOT * self.slot)

    @property
    def node_ports(self) -> str:
        """The range for Services of type NodePort, of its own for each slot."""
        first = FIRST_NODE_PORT + NODE_PORTS_PER_SLOT * self.slot
        return f"{first}-{first + NODE_PORTS_PER_SLOT - 1}"

    @property
    def pod_subnet(self) -> IPv4Network:
        """The addresses of pods."""
        return IPv4Network(self.options.pod_subnet or f"10.{96 + SLOTS + self.slot}.0.0/16")

    @property
    def service_subnet(self) -> IPv4Network:
        """The addresses of Services."""
        return IPv4Network(self.options.service_subnet or f"10.{96 + self.slot}.0.0/16")

    @property
    def gateway(self) -> IPv4Address:
        """The bridge's address: the pods' way out, and where DNS listens."""
        return self.pod_subnet[1]

    @property
    def api_service(self) -> IPv4Address:
        """The address of the Service `kubernetes` (Kubernetes takes the first)."""
        return self.service_subnet[1]

    @property
    def dns_service(self) -> IPv4Address:
        """The address of the Service `kube-dns` (the tenth, by habit)."""
        return self.service_subnet[10]

    @property
    def api_url(self) -> str:
        """Where programs on this machine reach the API server."""
        return f"https://127.0.0.1:{self.ports.api}"

    @property
    def node_name(self) -> str:
        """The name of the Node object."""
        return f"tieline-{self.name.lower()}"

    @property
    def bridge(self) -> str:
        """The network interface (at most 15 characters) that pods are plugged into."""
        return f"{BRIDGE_PREFIX}{self.slot}"

    @property
    def table(self) -> str:
        """The nftables table with this cluster's own rules."""
        return f"tieline-{self.slot}"

    @property
    def services_table(self) -> str:
        """The nftables table that kube-proxy writes."""
        return f"tieline-{self.slot}-services"

    @property
    def cgroup(self) -> str:
        """The cgroup (in every hierarchy) that all pods are below."""
        return f"tieline-{self.slot}"

    @property
    def containerd_socket(self) -> Path:
        """Where the cluster's own containerd listens."""
        return self.run / "containerd.sock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    def certificate(self, name: str) -> Path:
        """The path of a certificate."""
        return self.state / "certificates" / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The path of a private key."""
        return self.state / "certificates" / f"{name}.key"

    def config(self, name: str) -> Path:
        """The path of a component's configuration file."""
        return self.state / "configuration" / name

    def log(self, component: str) -> Path:
        """The path of a component's log."""
        return self.state / "logs" / f"{component}.log"


def fingerprint(*parts: object) -> str:
    """A short digest of the texts and bytes in `parts`, in which their order counts."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()[:20]
