"""The operator's configuration, from environment variables.

| variable | default | what it is |
|---|---|---|
| TIELINE_RUNTIME_IMAGE | (required) | image of the pods of environments that name none |
| TIELINE_API_URL | (required) | internal base URL of the API, given to pods |
| TIELINE_PREVIOUS_API_URL | (none) | the earlier TIELINE_API_URL; pods that have it keep it until they are replaced |
| TIELINE_IMAGE_PULL_SECRETS | (none) | Secrets that project pods pull with, separated by commas |
| TIELINE_PUBLIC_URL_TEMPLATE | http://{clusterIP} | public URL of an environment, with PLACEHOLDERS |
| TIELINE_NAMESPACES | (all) | namespaces to work in, separated by commas |
| TIELINE_WORKERS | 8 | objects that are reconciled at the same time |
| TIELINE_VERSIONS_KEPT | 20 | ProjectVersions kept per project, besides those in use |
| TIELINE_LEADER_ELECT | true | whether replicas take turns by a Lease |
| TIELINE_LEASE_NAMESPACE | (the pod's own) | namespace of that Lease |
| TIELINE_HEALTH_PORT | 8080 | liveness: GET /healthz |
| TIELINE_METRICS_PORT | 9090 | Prometheus: GET /metrics |
| TIELINE_LOG_LEVEL | INFO | DEBUG, INFO, WARNING or ERROR |
| TIELINE_EGRESS_ALLOWED | (none) | inner networks and names that token requests and pods may reach, with commas |
| TIELINE_EGRESS_DENIED | (none) | public networks that they may not reach, separated by commas |
| TIELINE_OTLP_ENDPOINT | (the API) | base URL of a collector that project pods send their traces to instead |
| TIELINE_CLUSTER_DNS | kube-system,openshift-dns,169.254.0.0/16 | namespaces and networks of name servers |
| TIELINE_METRICS_OBJECT_NAMES | false | whether metrics name objects, and not only count them |
| TIELINE_LISTEN_PORT | 8080 | the API's: port of REST |
| TIELINE_INTERNAL_PORT | 8081 | the API's: port for project pods, which their NetworkPolicies open |
| TIELINE_METRICS_NAMESPACES | (none) | namespaces whose pods may ask project pods for metrics, with commas |
| TIELINE_WATCH_TIMEOUT | 180 | seconds without a word from a watch until it counts as dead |

How environments are reached from outside is in ``exposure``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from tieline_operator.workload import exposure
from tieline_operator.workload.exposure import NOT_EXPOSED, Exposure
from tieline_operator.workload.network_policies import CLUSTER_DNS
from tieline_operator.workload.public_urls import PLACEHOLDERS, placeholders
from tieline_protocol.egress import PUBLIC_ONLY, Egress

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MAX_PORT = 65535

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ConfigError(Exception):
    """A variable is missing or wrong; the message names all that are."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the operator is told from outside."""

    runtime_image: str
    api_url: str
    previous_api_url: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    public_url_template: str = "http://{clusterIP}"
    namespaces: tuple[str, ...] = ()
    workers: int = 8
    versions_kept: int = 20
    leader_elect: bool = True
    lease_namespace: str = "default"
    health_port: int = 8080
    metrics_port: int = 9090
    log_level: str = "INFO"
    watch_timeout: float = 180.0
    otlp_endpoint: str = ""
    metrics_namespaces: tuple[str, ...] = ()
    metrics_object_names: bool = False
    listen_port: int = 8080
    internal_port: int = 8081
    exposure: Exposure = NOT_EXPOSED
    egress: Egress = PUBLIC_ONLY
    cluster_dns: tuple[str, ...] = CLUSTER_DNS

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Config":
        """Reads and checks the variables; raises ConfigError that names everything wrong at once."""
        read = _Reader(env)
        template = read.template("TIELINE_PUBLIC_URL_TEMPLATE", cls.public_url_template)
        namespaces = read.names("TIELINE_NAMESPACES")
        config = cls(
            runtime_image=read.text("TIELINE_RUNTIME_IMAGE"),
            api_url=read.url("TIELINE_API_URL"),
            previous_api_url=read.url("TIELINE_PREVIOUS_API_URL")
            if env.get("TIELINE_PREVIOUS_API_URL")
            else "",
            image_pull_secrets=read.names("TIELINE_IMAGE_PULL_SECRETS"),
            public_url_template=template,
            namespaces=namespaces,
            workers=read.number("TIELINE_WORKERS", cls.workers, 1, 256),
            versions_kept=read.number("TIELINE_VERSIONS_KEPT", cls.versions_kept, 1, 1000),
            leader_elect=read.flag("TIELINE_LEADER_ELECT", cls.leader_elect),
            lease_namespace=env.get("TIELINE_LEASE_NAMESPACE") or _own_namespace(),
            health_port=read.number("TIELINE_HEALTH_PORT", cls.health_port, 1, _MAX_PORT),
            metrics_port=read.number("TIELINE_METRICS_PORT", cls.metrics_port, 1, _MAX_PORT),
            log_level=read.choice("TIELINE_LOG_LEVEL", cls.log_level, _LEVELS),
            watch_timeout=read.number("TIELINE_WATCH_TIMEOUT", int(cls.watch_timeout), 10, 3600),
            metrics_namespaces=read.names("TIELINE_METRICS_NAMESPACES"),
            metrics_object_names=read.flag("TIELINE_METRICS_OBJECT_NAMES", cls.metrics_object_names),
            listen_port=read.number("TIELINE_LISTEN_PORT", cls.listen_port, 1, _MAX_PORT),
            internal_port=read.number("TIELINE_INTERNAL_PORT", cls.internal_port, 1, _MAX_PORT),
            exposure=exposure.read(env, url_template=template, namespaces=namespaces, problems=read.problems),
            egress=read.egress(),
            cluster_dns=read.name_servers("TIELINE_CLUSTER_DNS"),
            otlp_endpoint=read.url("TIELINE_OTLP_ENDPOINT") if env.get("TIELINE_OTLP_ENDPOINT") else "",
        )
        if read.problems:
            raise ConfigError("; ".join(read.problems))
        return config


class _Reader:
    """Reads variables and collects what is wrong with them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        value = self._env.get(name, "").strip()
        if not value:
            self.problems.append(f"{name} is not set")
        return value

    def url(self, name: str) -> str:
        value = self.text(name)
        if value and not value.startswith(("http://", "https://")):
            self.problems.append(f"{name} must start with http:// or https://")
        return value.rstrip("/")

    def template(self, name: str, default: str) -> str:
        value = self._env.get(name) or default
        try:
            unknown = placeholders(value) - PLACEHOLDERS
        except ValueError as error:
            self.problems.append(f"{name} is no template: {error}")
            return value
        if unknown:
            known = ", ".join(sorted(PLACEHOLDERS))
            self.problems.append(f"{name} has unknown placeholders {sorted(unknown)}; known are {known}")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self._env.get(name, "").split(",") if part.strip())

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._env.get(name)
        if not value:
            return default
        if not value.isdecimal() or not least <= int(value) <= most:
            self.problems.append(f"{name} must be a number from {least} to {most}, it is {value!r}")
            return default
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._env.get(name, "").lower()
        if not value:
            return default
        if value not in _TRUE + _FALSE:
            self.problems.append(f"{name} must be true or false, it is {value!r}")
        return value in _TRUE

    def egress(self) -> Egress:
        try:
            return Egress.from_environment(self._env)
        except ValueError as error:
            self.problems.append(str(error))
            return PUBLIC_ONLY

    def name_servers(self, name: str) -> tuple[str, ...]:
        found = self.names(name)
        for one in found:
            try:
                ip_network(one)
            except ValueError:
                if not _NAMESPACE.fullmatch(one):
                    self.problems.append(
                        f"{name} must list namespaces, such as kube-system, and networks, such as 169.254.20.10/32; "
                        f"{one!r} is neither"
                    )
        return found or CLUSTER_DNS

    def choice(self, name: str, default: str, options: tuple[str, ...]) -> str:
        value = (self._env.get(name) or default).upper()
        if value not in options:
            self.problems.append(f"{name} must be one of {', '.join(options)}, it is {value!r}")
            return default
        return value


def _own_namespace() -> str:
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
