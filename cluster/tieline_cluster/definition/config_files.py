"""The components' configuration files, made from a plan. Pure: each function returns a file's text."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from tieline_cluster.definition.certificates import CLUSTER_DOMAIN
from tieline_cluster.definition.plan import Audit, Plan

CNI_PLUGINS = "/usr/lib/cni"
"""Where Debian's package puts the plugins."""
PAUSE_IMAGE = "tieline.local/pause:1"
EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)
CONTAINER_GROUP = "k8s.io"


def kubelet(plan: Plan) -> str:
    """KubeletConfiguration: our certificates, no eviction or image clean-up by a full disk, no iptables rules."""
    configuration: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.node_address,
        "port": plan.ports.kubelet,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": plan.ports.kubelet_health,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plan.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(plan.certificate("kubelet-server")),
        "tlsPrivateKeyFile": str(plan.key("kubelet-server")),
        "containerRuntimeEndpoint": f"unix://{plan.containerd_socket}",
        "podLogsDir": str(plan.state / "pod-logs"),
        "volumePluginDir": str(plan.state / "volume-plugins"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.cgroup}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "clusterDNS": [str(plan.dns_service)],
        "clusterDomain": CLUSTER_DOMAIN,
        "makeIPTablesUtilChains": False,
        # Lowering it needs CAP_SYS_RESOURCE, which not every root has.
        "oomScoreAdj": 0,
        "maxPods": 250,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "serializeImagePulls": False,
        # A developer's disk is often nearly full; Kubernetes would evict pods and delete images at 85 %.
        "evictionHard": dict.fromkeys(EVICTION_SIGNALS, "0%"),
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "10s",
    }
    if plan.options.crash_loop_max is not None:
        configuration["featureGates"] = {"KubeletCrashLoopBackOffMax": True}
        configuration["crashLoopBackOff"] = {"maxContainerRestartPeriod": f"{plan.options.crash_loop_max}s"}
    return _yaml(configuration)


def proxy(plan: Plan, *, masquerade_all: bool) -> str:
    """KubeProxyConfiguration; `masquerade_all` where the kernel cannot filter what crosses a bridge."""
    return _yaml(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": plan.node_name,
            "clientConnection": {"kubeconfig": str(plan.config("proxy.kubeconfig"))},
            "clusterCIDR": str(plan.pod_subnet),
            "healthzBindAddress": f"127.0.0.1:{plan.ports.proxy_health}",
            "metricsBindAddress": f"127.0.0.1:{plan.ports.proxy_metrics}",
            # Zero leaves the machine's settings alone.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
            # A Service follows its pods five times sooner than by default: there are few of them here.
            "nftables": {"masqueradeAll": masquerade_all, "minSyncPeriod": "200ms"},
            "oomScoreAdj": 0,
        }
    )


def containerd(plan: Plan) -> str:
    """The configuration of the cluster's own containerd (1.6 and later, version 2 of the file's format)."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = {_quoted(plan.state / "containerd")}
state = {_quoted(plan.run / "containerd")}
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = {_quoted(plan.containerd_socket)}

[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE no score can be lowered, and runc would fail to start any pod.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true

[{cri}.cni]
  bin_dir = "{CNI_PLUGINS}"
  conf_dir = {_quoted(plan.config("cni"))}

[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def cni(plan: Plan) -> str:
    """The pod network: a bridge with the gateway's address. Masquerading is in our own nftables table."""
    bridge = {
        "type": "bridge",
        "bridge": plan.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(plan.state / "addresses"),
            "ranges": [[{"subnet": str(plan.pod_subnet), "gateway": str(plan.gateway)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": plan.table, "plugins": [bridge]}, indent=2)


def corefile(plan: Plan, *, upstream: Sequence[str]) -> str:
    """CoreDNS: the cluster's names, and the rest from `upstream`.

    Without a name server that answers, other names do not exist: the answer comes at once, where forwarding would let
    every look-up wait for its time-out.
    """
    rest = (
        f"forward . {' '.join(upstream)}" if upstream else "template ANY ANY {\n        rcode NXDOMAIN\n    }"
    )
    return f"""\
{CLUSTER_DOMAIN} in-addr.arpa {{
    bind {plan.gateway}
    ready 127.0.0.1:{plan.ports.dns_health}
    errors
    cache 5
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {plan.config("dns.kubeconfig")}
        ttl 5
    }}
}}
. {{
    bind {plan.gateway}
    errors
    cache 30
    {rest}
}}
"""


def audit_policy(audit: Audit) -> str:
    """Who changed what, or all that ServiceAccounts ask for; without the noise that a cluster makes by itself."""
    rules = _ACCOUNTS if audit == "accounts" else _CHANGES
    return _yaml(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": list(rules),
        }
    )


_CHANGES: tuple[dict[str, Any], ...] = (
    {"level": "None", "verbs": ["get", "list", "watch"]},
    {
        "level": "None",
        "resources": [
            {"group": "coordination.k8s.io", "resources": ["leases"]},
            {"group": "", "resources": ["events"]},
            {"group": "events.k8s.io", "resources": ["events"]},
            {"group": "authentication.k8s.io"},
            {"group": "authorization.k8s.io"},
        ],
    },
    {
        "level": "None",
        "userGroups": ["system:nodes"],
        "resources": [{"group": "", "resources": ["nodes/status"]}],
    },
    {"level": "Metadata"},
)
_ACCOUNTS: tuple[dict[str, Any], ...] = (
    # The controllers' own.
    {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
    {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
    {"level": "None"},
)


def base_objects(plan: Plan) -> str:
    """The objects that the cluster's DNS needs: its rights, and a Service whose endpoint is CoreDNS on the host."""
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
    ]
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    watched = {"": ["services", "pods", "namespaces"], "discovery.k8s.io": ["endpointslices"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tieline:dns"}
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "tieline:dns"},
                "rules": [
                    {"apiGroups": [group], "resources": names, "verbs": ["list", "watch"]}
                    for group, names in watched.items()
                ],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "tieline:dns"},
                "roleRef": role,
                "subjects": [role | {"kind": "User"}],
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"clusterIP": str(plan.dns_service), "ports": ports},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": metadata | {"labels": {"kubernetes.io/service-name": "kube-dns"}},
                "addressType": "IPv4",
                "ports": ports,
                "endpoints": [{"addresses": [str(plan.gateway)], "conditions": {"ready": True}}],
            },
        ],
        sort_keys=False,
    )


def _yaml(configuration: dict[str, Any]) -> str:
    return yaml.safe_dump(configuration, sort_keys=False)


def _quoted(value: object) -> str:
    return json.dumps(str(value))
