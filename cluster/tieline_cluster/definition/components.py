"""The programs of a cluster: their command lines, and how to see that each is ready. Pure."""

from dataclasses import dataclass, field
from pathlib import Path

from tieline_cluster.definition.hyperkube import Binaries
from tieline_cluster.definition.plan import Plan

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOLDER = "mounts"
"""The process that keeps the node's mount namespace alive."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """One program: `ready` is a URL that answers 200, or a file or socket that appears.

    `inputs` are the files that it reads only once: a change of one of them means that it has to be started anew.
    With `in_node` it runs in the node's mount namespace.
    """

    name: str
    argv: tuple[str, ...]
    ready: str | Path
    inputs: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    in_node: bool = False


def etcd(plan: Plan, binaries: Binaries) -> Component:
    """The store: on loopback, for clients with a certificate of the cluster only."""
    ports = plan.ports
    client, peer = f"https://127.0.0.1:{ports.etcd}", f"https://127.0.0.1:{ports.etcd_peer}"
    flags = {
        "name": "etcd",
        "data-dir": plan.state / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"etcd={peer}",
        "listen-metrics-urls": f"http://127.0.0.1:{ports.etcd_metrics}",
        "cert-file": plan.certificate("etcd"),
        "key-file": plan.key("etcd"),
        "client-cert-auth": "true",
        "trusted-ca-file": plan.certificate("ca"),
        "peer-cert-file": plan.certificate("etcd"),
        "peer-key-file": plan.key("etcd"),
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": plan.certificate("ca"),
        "auto-compaction-retention": "10m",
        "log-level": "warn",
        "unsafe-no-fsync": str(not plan.options.fsync).lower(),
    }
    return Component(
        name="etcd",
        argv=_argv(binaries, "etcd", flags),
        ready=f"http://127.0.0.1:{ports.etcd_metrics}/readyz",
        inputs=_pair(plan, "etcd"),
    )


def apiserver(plan: Plan, binaries: Binaries) -> Component:
    """The API server: with a node it listens on every address (a table of ours keeps other machines out)."""
    flags: dict[str, object] = {
        "etcd-servers": f"https://127.0.0.1:{plan.ports.etcd}",
        "etcd-cafile": plan.certificate("ca"),
        "etcd-certfile": plan.certificate("apiserver-etcd"),
        "etcd-keyfile": plan.key("apiserver-etcd"),
        "secure-port": plan.ports.api,
        "tls-cert-file": plan.certificate("apiserver"),
        "tls-private-key-file": plan.key("apiserver"),
        "client-ca-file": plan.certificate("ca"),
        "anonymous-auth": "false",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-cluster-ip-range": plan.service_subnet,
        "service-node-port-range": plan.node_ports,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": plan.certificate("service-accounts").with_suffix(".pub"),
        "service-account-signing-key-file": plan.key("service-accounts"),
        "kubelet-certificate-authority": plan.certificate("ca"),
        "kubelet-client-certificate": plan.certificate("apiserver-kubelet"),
        "kubelet-client-key": plan.key("apiserver-kubelet"),
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
        "profiling": "false",
    }
    if plan.options.node:
        flags |= {"bind-address": "0.0.0.0", "advertise-address": plan.node_address}  # noqa: S104
    else:
        flags |= {"bind-address": "127.0.0.1", "endpoint-reconciler-type": "none"}
    if plan.options.audited:
        flags |= {
            "audit-policy-file": plan.config("audit.yaml"),
            "audit-log-path": plan.log("audit"),
            # At most three files of so many megabytes: this one, and those that it was before.
            "audit-log-maxsize": 200,
            "audit-log-maxbackup": 2,
        }
    return Component(
        name="kube-apiserver",
        argv=_argv(binaries, "kube-apiserver", flags),
        ready=f"{plan.api_url}/readyz",
        inputs=(
            *_pair(plan, "apiserver"),
            *_pair(plan, "apiserver-kubelet"),
            *_pair(plan, "apiserver-etcd"),
            plan.key("service-accounts"),
            *((plan.config("audit.yaml"),) if plan.options.audited else ()),
        ),
    )


def controllers(plan: Plan, binaries: Binaries) -> tuple[Component, ...]:
    """What makes the API's objects real: the controller manager, and with a node the scheduler."""
    shared = {
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "profiling": "false",
        # A new cluster's controllers have some hundred things to make before it can be used.
        "kube-api-qps": 200,
        "kube-api-burst": 400,
        "tls-cert-file": plan.certificate("control-plane"),
        "tls-private-key-file": plan.key("control-plane"),
    }
    manager_config = plan.config("controller-manager.kubeconfig")
    manager = Component(
        name="kube-controller-manager",
        argv=_argv(
            binaries,
            "kube-controller-manager",
            shared
            | _delegated(manager_config)
            | {
                "secure-port": plan.ports.controller_manager,
                "root-ca-file": plan.certificate("ca"),
                "service-account-private-key-file": plan.key("service-accounts"),
                "use-service-account-credentials": "true",
                "flex-volume-plugin-dir": plan.state / "volume-plugins",
            },
        ),
        ready=f"https://127.0.0.1:{plan.ports.controller_manager}/healthz",
        inputs=(manager_config, plan.certificate("ca"), plan.key("service-accounts")),
    )
    if not plan.options.node:
        return (manager,)
    scheduler_config = plan.config("scheduler.kubeconfig")
    scheduler = Component(
        name="kube-scheduler",
        argv=_argv(
            binaries,
            "kube-scheduler",
            shared | _delegated(scheduler_config) | {"secure-port": plan.ports.scheduler},
        ),
        ready=f"https://127.0.0.1:{plan.ports.scheduler}/healthz",
        inputs=(scheduler_config,),
    )
    return manager, scheduler


def holder(plan: Plan, binaries: Binaries) -> Component:
    """Keeps a mount namespace for the node's programs.

    Whatever they mount is seen by them alone, and is gone when they are, however they end. The folders whose paths
    are fixed inside containerd and the kubelet are the cluster's own there: no other container runtime's is touched.
    """
    private = plan.state / "private"
    binds = "".join(
        f'mkdir -p "{private}{path}" && mount --bind "{private}{path}" "{path}" && ' for path in FIXED_FOLDERS
    )
    ready = plan.run / "mounts-ready"
    script = f'mount --make-rshared / && {binds}touch "{ready}" && exec "{binaries.pause}"'
    return Component(
        name=HOLDER,
        argv=("unshare", "--mount", "--propagation", "slave", "sh", "-ec", script),
        ready=ready,
    )


FIXED_FOLDERS = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")
"""Paths that containerd and the kubelet cannot be told to put elsewhere."""


def containerd(plan: Plan) -> Component:
    """The cluster's own container runtime."""
    return Component(
        name="containerd",
        argv=("containerd", "--config", str(plan.config("containerd.toml"))),
        ready=plan.containerd_socket,
        inputs=(plan.config("containerd.toml"),),
        in_node=True,
    )


def kubelet(plan: Plan, binaries: Binaries) -> Component:
    """The node's agent."""
    flags = {
        "config": plan.config("kubelet.yaml"),
        "kubeconfig": plan.config("kubelet.kubeconfig"),
        "root-dir": plan.state / "kubelet",
        "cert-dir": plan.state / "kubelet" / "pki",
        "hostname-override": plan.node_name,
        "node-ip": plan.node_address,
        "node-labels": f"tieline.dev/cluster={plan.name}",
    }
    return Component(
        name="kubelet",
        argv=_argv(binaries, "kubelet", flags),
        ready=f"http://127.0.0.1:{plan.ports.kubelet_health}/healthz",
        inputs=(
            plan.config("kubelet.yaml"),
            plan.config("kubelet.kubeconfig"),
            plan.config("cni") / "10-tieline.conflist",
            *_pair(plan, "kubelet-server"),
        ),
        in_node=True,
    )


def services(plan: Plan, binaries: Binaries, *, nft: str, programs: Path) -> tuple[Component, ...]:
    """kube-proxy and CoreDNS; `programs` has the `nft` that gives kube-proxy's table a name of its own."""
    proxy = Component(
        name="kube-proxy",
        argv=_argv(binaries, "kube-proxy", {"config": plan.config("proxy.yaml")}),
        ready=f"http://127.0.0.1:{plan.ports.proxy_health}/healthz",
        inputs=(plan.config("proxy.yaml"), plan.config("proxy.kubeconfig")),
        env={
            "PATH": f"{programs}:{SYSTEM_PATH}",
            "TIELINE_NFT": nft,
            "TIELINE_NFT_TABLE": plan.services_table,
        },
    )
    dns = Component(
        name="coredns",
        argv=(str(binaries.hyperkube), "coredns", "-conf", str(plan.config("Corefile"))),
        ready=f"http://127.0.0.1:{plan.ports.dns_health}/ready",
        inputs=(plan.config("Corefile"), plan.config("dns.kubeconfig")),
    )
    return proxy, dns


def _delegated(kubeconfig: Path) -> dict[str, object]:
    names = "kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"
    # There is no authority of an aggregation layer to look up.
    return dict.fromkeys(names, kubeconfig) | {"authentication-skip-lookup": "true"}


def _pair(plan: Plan, name: str) -> tuple[Path, ...]:
    return plan.certificate("ca"), plan.certificate(name), plan.key(name)


def _argv(binaries: Binaries, component: str, flags: dict[str, object]) -> tuple[str, ...]:
    return (str(binaries.hyperkube), component, *(f"--{name}={value}" for name, value in flags.items()))
