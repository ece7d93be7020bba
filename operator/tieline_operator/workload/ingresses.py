"""The Ingress or HTTPRoute of an environment's Service."""

from typing import NamedTuple

from tieline_operator.apply.plan import Manifest
from tieline_operator.workload.exposure import Gateway
from tieline_operator.workload.public_urls import Address


class Backend(NamedTuple):
    """A Service, by name, and its port."""

    service: str
    port: int


def ingress_spec(address: Address, to: Backend, *, class_name: str = "", tls_secret: str = "") -> Manifest:
    """Routes all of a host to the Service. Without a Secret the controller's own certificate serves https."""
    backend = {"service": {"name": to.service, "port": {"number": to.port}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    tls = {"hosts": [address.host], **({"secretName": tls_secret} if tls_secret else {})}
    return {
        **({"ingressClassName": class_name} if class_name else {}),
        **({"tls": [tls]} if address.https else {}),
        "rules": [{"host": address.host, "http": {"paths": paths}}],
    }


def http_route_spec(address: Address, to: Backend, gateway: Gateway) -> Manifest:
    """Routes a host, or a path of it that is removed again, to the Service."""
    parent = {"namespace": gateway.namespace, "name": gateway.name}
    if gateway.listener:
        parent["sectionName"] = gateway.listener
    rule: Manifest = {
        "matches": [{"path": {"type": "PathPrefix", "value": address.path or "/"}}],
        "backendRefs": [{"name": to.service, "port": to.port}],
    }
    if address.path:
        rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
        rule["filters"] = [{"type": "URLRewrite", "urlRewrite": rewrite}]
    return {"parentRefs": [parent], "hostnames": [address.host], "rules": [rule]}
