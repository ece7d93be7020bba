"""Where an environment's pods may go, as far as a NetworkPolicy can say it.

It says the same as ``tieline_rules.egress``, which the runtime keeps for each socket; the policy holds for all
else that the code may do as well, where the cluster's network enforces policies. Networks of the platform's
own lists are told as they are. Of the names that an administrator allows it can tell those of the cluster.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from tieline_rules.egress import Egress, Network

Manifest = dict[str, Any]

HTTP_PORT = 8080
HEALTH_PORT = 8081
# 5353 is where OpenShift's name servers listen behind port 53 of their Service.
_DNS_PORTS = (53, 5353)
# What is no public address (IANA's special-purpose registries), the cloud's metadata services among them.
_INNER_V4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
_INNER_V6 = ("::1/128", "fc00::/7", "fe80::/10", "ff00::/8")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_CLUSTER_DOMAIN = ".cluster.local"


def spec(
    selector: dict[str, str],
    *,
    egress: Egress,
    platform_urls: Sequence[str],
    metrics_namespaces: Sequence[str] = (),
) -> Manifest:
    """In: webhooks, and who may see metrics. Out: names, public addresses, the platform's, and what is allowed."""
    dns = [{"port": port, "protocol": protocol} for port in _DNS_PORTS for protocol in ("UDP", "TCP")]
    platform = [peer for url in platform_urls for peer in _of_the_platform(url)]
    return {
        "podSelector": {"matchLabels": selector},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": HTTP_PORT, "protocol": "TCP"}]}, *_metrics(metrics_namespaces)],
        "egress": [{"ports": dns}, {"to": [*_public(egress), *_opened(egress), *platform]}],
    }


def _metrics(namespaces: Sequence[str]) -> Iterator[Manifest]:
    if namespaces:
        peers = [_namespace(name) for name in namespaces]
        yield {"from": peers, "ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]}


def _public(egress: Egress) -> Iterator[Manifest]:
    for everything, inner, version in (("0.0.0.0/0", _INNER_V4, 4), ("::/0", _INNER_V6, 6)):
        denied = [str(network) for network in egress.denied if network.version == version]
        if everything in denied:
            continue
        yield {"ipBlock": {"cidr": everything, "except": [*inner, *denied]}}


def _opened(egress: Egress) -> Iterator[Manifest]:
    for network in egress.allowed:
        yield _block(network)
    for host in egress.hosts:
        yield from _of_the_cluster(host)


def _of_the_platform(url: str) -> Iterator[Manifest]:
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        yield from _of_the_cluster(host)
        if host.count(".") == 1:
            # "tieline-api.tieline-system": the cluster's search domains add the rest.
            yield _namespace(host.split(".")[1])
    else:
        yield {"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}


def _of_the_cluster(host: str) -> Iterator[Manifest]:
    """The pods behind ``shop.acme.svc``: all of the namespace, since a Service's name tells no labels."""
    parts = host.removesuffix(_CLUSTER_DOMAIN).split(".")
    if parts[-1] != "svc":
        return
    if len(parts) > 2:
        yield _namespace(parts[-2])
    else:
        yield {"namespaceSelector": {}}


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: name}}}


def _block(network: Network) -> Manifest:
    return {"ipBlock": {"cidr": str(network)}}
