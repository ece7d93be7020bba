"""Where an environment's pods may connect to, as far as a NetworkPolicy can express it.

It matches ``tieline_protocol.egress``, which the runtime enforces for each socket; the policy also covers everything
else that the code does, where the cluster's network enforces policies. Networks of the settings appear
as they are. Of the names that an administrator allows, it can express those of the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from tieline_core.identity.names import INTERNAL_API_SERVICE, PUBLIC_API_SERVICE
from tieline_operator.apply.plan import Manifest
from tieline_protocol.egress import GLOBAL_V6, INNER_V4, INNER_V6, NAT64, Egress, Network

HTTP_PORT = 8080
HEALTH_PORT = 8081
API_PORTS: Mapping[str, Sequence[int]] = {INTERNAL_API_SERVICE: (8081,), PUBLIC_API_SERVICE: (8080,)}
"""The ports of the API's pods behind each of its Services."""
ENGINE = "tieline-engine"
"""The Service of the event engine, and the ``app.kubernetes.io/name`` of its pods."""
ENGINE_SERVICES = (ENGINE, f"{ENGINE}-headless")
ENGINE_PORT = 4222
CLUSTER_DNS = ("kube-system", "openshift-dns", "169.254.0.0/16")
"""Where name servers are, unless the administrator says otherwise; the link-local addresses are those of
caches on each node and of some clouds. It is about the ports of DNS alone."""
# 5353 is where OpenShift's name servers listen behind port 53 of their Service.
_DNS_PORTS = (53, 5353)
_API_SERVER_PORTS = (443, 6443)
_EVERYTHING_V4 = IPv4Network("0.0.0.0/0")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_CLUSTER_DOMAIN = ".cluster.local"


def spec(
    selector: dict[str, str],
    *,
    egress: Egress,
    platform_urls: Sequence[str],
    metrics_namespaces: Sequence[str] = (),
    dns: Sequence[str] = CLUSTER_DNS,
    api_ports: Mapping[str, Sequence[int]] = API_PORTS,
    engine_urls: Sequence[str] = (),
) -> Manifest:
    """In: webhooks, and who may see metrics. Out: names, public addresses, the platform's, and what is allowed.

    ``engine_urls`` are those of the event engine's servers; each opens its port alone. ``dns`` are the namespaces and
    networks of the cluster's name servers. ``api_ports`` has the ports of the API's pods behind each of its Services:
    pods reach these ports alone, and nothing else in the platform's namespace.
    """
    ports = [{"port": port, "protocol": protocol} for port in _DNS_PORTS for protocol in ("UDP", "TCP")]
    api = [rule for url in platform_urls for rule in _of_the_api(url, api_ports)]
    others = [url for url in platform_urls if not any(_of_the_api(url, api_ports))]
    platform = [peer for url in others for peer in _of_the_platform(url)]
    return {
        "podSelector": {"matchLabels": selector},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": HTTP_PORT, "protocol": "TCP"}]}, *_metrics(metrics_namespaces)],
        "egress": [
            {"to": [_name_server(text) for text in dns], "ports": ports},
            {"to": [*_public(egress), *_opened(egress), *platform]},
            *api,
            *_of_the_engine(engine_urls),
        ],
    }


def _metrics(namespaces: Sequence[str]) -> Iterator[Manifest]:
    if namespaces:
        peers = [_namespace(name) for name in namespaces]
        yield {"from": peers, "ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]}


def _name_server(text: str) -> Manifest:
    try:
        return {"ipBlock": {"cidr": str(ip_network(text))}}
    except ValueError:
        return _namespace(text)


def _public(egress: Egress) -> Iterator[Manifest]:
    closed = (*egress.denied, *_through_nat64(egress.denied))
    for network, inner in (
        (_EVERYTHING_V4, INNER_V4),
        (GLOBAL_V6, INNER_V6),
        (NAT64, tuple(_through_nat64(INNER_V4))),
    ):
        if not any(_is_in(network, one) for one in closed):
            yield _block(network, (*inner, *closed))


def _through_nat64(networks: Iterable[Network]) -> Iterator[IPv6Network]:
    """IPv4 networks as NAT64 addresses, for networks without IPv4 (RFC 6052)."""
    for one in networks:
        if isinstance(one, IPv4Network):
            yield IPv6Network((int(NAT64.network_address) + int(one.network_address), 96 + one.prefixlen))


def _opened(egress: Egress) -> Iterator[Manifest]:
    for network in egress.allowed:
        yield _block(network, egress.denied)
    for host in egress.hosts:
        yield from _of_the_cluster(host)


def _block(network: Network, closed: tuple[Network, ...]) -> Manifest:
    """A network without the smaller ones in it that are closed."""
    parts = _parts(network, closed)
    return {"ipBlock": {"cidr": str(network), **({"except": list(parts)} if parts else {})}}


@lru_cache(maxsize=1000)
def _parts(network: Network, closed: tuple[Network, ...]) -> tuple[str, ...]:
    """Remembered: they are the same for every environment, and comparing networks is slow."""
    return tuple(dict.fromkeys(str(one) for one in closed if one != network and _is_in(one, network)))


def _is_in(part: Network, network: Network) -> bool:
    return (
        part.version == network.version
        and part.prefixlen >= network.prefixlen
        and part.network_address in network
    )


def _of_the_api(url: str, ports: Mapping[str, Sequence[int]]) -> Iterator[Manifest]:
    """The rule for a URL that names one of the API's Services: its pods, at the port behind that Service."""
    service, _, rest = (urlsplit(url).hostname or "").removesuffix(_CLUSTER_DOMAIN).partition(".")
    namespace = rest.removesuffix(".svc")
    if service in ports and namespace and "." not in namespace:
        pods = {"matchLabels": {"app.kubernetes.io/name": PUBLIC_API_SERVICE}}
        peer = {**_namespace(namespace), "podSelector": pods}
        yield {"to": [peer], "ports": [{"port": port, "protocol": "TCP"} for port in ports[service]]}


def _of_the_engine(urls: Sequence[str]) -> list[Manifest]:
    """The rules for the event engine's servers: our own pods, or a host's port.

    A policy cannot match the name of a host outside the cluster, so its port is open everywhere. The exceptions are the
    ports of API servers: to such a host, the administrator opens its network.
    """
    rules: list[Manifest] = []
    for url in urls:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or ENGINE_PORT
        peers = [*_engine_pods(host), *_of_the_platform(url)][:1]
        if not peers and port in _API_SERVER_PORTS:
            continue
        rule = {**({"to": peers} if peers else {}), "ports": [{"port": port, "protocol": "TCP"}]}
        if rule not in rules:
            rules.append(rule)
    return rules


def _engine_pods(host: str) -> Iterator[Manifest]:
    """The pods behind our own Service, or one of them by its name in the headless Service."""
    labels = host.removesuffix(_CLUSTER_DOMAIN).removesuffix(".svc").split(".")
    if len(labels) in (2, 3) and labels[-2] in ENGINE_SERVICES:
        pods = {"matchLabels": {"app.kubernetes.io/name": ENGINE}}
        yield {**_namespace(labels[-1]), "podSelector": pods}


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
