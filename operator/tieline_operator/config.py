"""The operator's configuration, from environment variables.

| variable | default | what it is |
|---|---|---|
| TIELINE_RUNTIME_IMAGE | (required) | image of the pods of environments that name none |
| TIELINE_API_URL | (required) | internal base URL of the API, given to pods |
| TIELINE_IMAGE_PULL_SECRETS | (none) | Secrets that project pods pull with, separated by commas |
| TIELINE_PUBLIC_URL_TEMPLATE | http://{clusterIP} | public URL of an environment, with PLACEHOLDERS |
| TIELINE_NAMESPACES | (all) | namespaces to work in, separated by commas |
| TIELINE_WORKERS | 8 | objects that are reconciled at the same time |
| TIELINE_VERSIONS_KEPT | 20 | ProjectVersions kept per project, besides those in use |
| TIELINE_LEADER_ELECT | true | whether replicas elect a leader by a Lease |
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
| TIELINE_TLS | disabled | whether API and engine serve pods by TLS: disabled, optional (as well) or required |
| TIELINE_TLS_CERTIFICATES | operator | who makes their certificates: operator or cert-manager |
| TIELINE_INTERNAL_TLS_PORT | 8443 | the API's: port for project pods by TLS |
| TIELINE_ACTIVATOR_PORT | 8082 | the API's: port that answers for environments without pods |
| TIELINE_METRICS_NAMESPACES | (none) | namespaces whose pods may ask project pods for metrics, with commas |
| TIELINE_HEALTHY_SECONDS | 60 | seconds for which a version must serve without a restart until it is healthy |
| TIELINE_WATCH_TIMEOUT | 180 | seconds without a word from a watch until it counts as dead |
| TIELINE_ENGINE_URL | (required) | URLs of the event engine's servers, separated by commas |
| TIELINE_ENGINE_REPLICAS | 1 | servers that keep each stream: 1 or 3 |
| TIELINE_ENGINE_QUEUE_BYTES | 268435456 | bytes of the events that an environment has queued |
| TIELINE_ENGINE_LATER_BYTES | 268435456 | bytes of events of an environment that wait for a time |
| TIELINE_ENGINE_RUNS_BYTES | 134217728 | bytes of steps of an environment |
| TIELINE_ENGINE_DEAD_LETTERS_BYTES | 134217728 | bytes of dead letters of an environment |
| TIELINE_ENGINE_DEAD_LETTERS_DAYS | 90 | days for which dead letters are kept |
| TIELINE_ENGINE_HISTORY_BYTES | 268435456 | bytes of the run history of an organisation |
| TIELINE_ENGINE_HISTORY_DAYS | 30 | days that run history is kept |
| TIELINE_ENGINE_DIRECT_BYTES | 134217728 | bytes of the direct runs in it |
| TIELINE_ENGINE_STATE_BYTES | 268435456 | bytes of the state of an organisation's integrations |
| TIELINE_ENGINE_AUDIT_BYTES | 67108864 | bytes of the audit records of an organisation |
| TIELINE_ENGINE_AUDIT_DAYS | 365 | days that audit records are kept |
| TIELINE_ENGINE_PACKAGES_BYTES | 2147483648 | bytes of the packages of an organisation's projects |
| TIELINE_ENGINE_VOLUME | (not known) | size of the engine's volume, such as 10Gi; streams take no more together |
| TIELINE_QUOTAS | (none) | quotas of organisations that have no others, in YAML or JSON |
| TIELINE_PACKAGES_INDEX_URL | (PyPI) | index that packages are installed from |
| TIELINE_PACKAGES_INDEX_SECRET | (none) | Secret in each organisation's namespace with the index's credentials |
| TIELINE_PACKAGES_CA | (none) | certificate authorities of the index in PEM, beside the public ones |
| TIELINE_PACKAGES_ARCHITECTURE | (the operator's) | architecture of the nodes for pods with packages |

How environments are reached from outside is in ``exposure``.
"""

import re
import ssl
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from tieline_core.engine.streams import StreamLimits
from tieline_core.environment_settings import EnvironmentSettings, Names, Port, listed, number
from tieline_core.kubernetes.quantities import amount
from tieline_core.resources.quotas import NO_QUOTAS, Quotas, quotas_setting
from tieline_core.tls import CertificateSource
from tieline_operator.workload import exposure
from tieline_operator.workload.exposure import NOT_EXPOSED, Exposure
from tieline_operator.workload.network_policies import CLUSTER_DNS, ENGINE
from tieline_operator.workload.public_urls import PLACEHOLDERS, placeholders
from tieline_protocol.packages import own_architecture

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ENGINE_SCHEMES = ("nats", "tls")
_MAX_AUTHORITIES = 64 << 10
_SMALLEST_VOLUME = 256 << 20
_DEFAULT_TEMPLATE = "http://{clusterIP}"


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    return text.rstrip("/")


def _index_url(text: str) -> str:
    url = _url(text)
    if "@" in urlsplit(url).netloc:
        # It goes into Jobs.
        raise ValueError(
            "must have no user or password: put them into the Secret of TIELINE_PACKAGES_INDEX_SECRET"
        )
    return url


def _authorities(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise ValueError("must hold certificates alone: it contains a private key")
    if len(text) > _MAX_AUTHORITIES:
        # It goes into an environment variable of Jobs.
        raise ValueError(
            f"must have at most {_MAX_AUTHORITIES >> 10} KiB: give your own authorities, without the public ones"
        )
    if text:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError):
            raise ValueError("must be certificates in PEM (-----BEGIN CERTIFICATE-----)") from None
    return text


def _template(text: str) -> str:
    try:
        unknown = placeholders(text) - PLACEHOLDERS
    except ValueError as error:
        raise ValueError(f"is no template: {error}") from None
    if unknown:
        known = ", ".join(sorted(PLACEHOLDERS))
        raise ValueError(f"has unknown placeholders {sorted(unknown)}; known are {known}")
    return text


def _name_servers(found: tuple[str, ...]) -> tuple[str, ...]:
    for one in found:
        try:
            ip_network(one)
        except ValueError:
            if not _NAMESPACE.fullmatch(one):
                raise ValueError(
                    "must list namespaces, such as kube-system, and networks, such as 169.254.20.10/32; "
                    f"{one!r} is neither"
                ) from None
    return found or CLUSTER_DNS


def _engine_urls(found: tuple[str, ...]) -> tuple[str, ...]:
    for one in found:
        try:
            parts = urlsplit(one)
            usable = parts.scheme in _ENGINE_SCHEMES and parts.hostname and (parts.port or 1)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("must list URLs such as nats://tieline-engine.tieline-system.svc:4222")
        if "@" in parts.netloc:
            # It goes into pods and logs.
            raise ValueError("must have no user or password: the Secret tieline-engine-trust has the keys")
    if not found:
        raise ValueError("must list the URL of at least one server")
    return found


def _stream_replicas(text: Any) -> Any:
    if text in ("1", "3"):
        return int(text)
    if text in (1, 3):
        return text
    raise ValueError(f"must be 1 or 3, not {text!r}")


def _volume(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    found = amount(text)
    if found is None or found < _SMALLEST_VOLUME:
        raise ValueError(f"must be a quantity such as 10Gi, not {text!r}")
    return int(found)


def _own_namespace() -> str:
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


_Url = Annotated[str, AfterValidator(_url)]
# JetStream's largest message must fit in, and the number into a signed one of 64 bits.
_Bytes = Annotated[int, number(16 << 20, 1 << 50, int)]


class Config(EnvironmentSettings):
    """The operator's settings."""

    runtime_image: str
    api_url: _Url
    image_pull_secrets: Names = ()
    public_url_template: Annotated[str, AfterValidator(_template)] = _DEFAULT_TEMPLATE
    namespaces: Names = ()
    workers: Annotated[int, number(1, 256, int)] = 8
    versions_kept: Annotated[int, number(1, 1000, int)] = 20
    leader_elect: bool = True
    lease_namespace: str = Field(default_factory=_own_namespace)
    health_port: Port = 8080
    healthy_seconds: Annotated[float, number(0, 3600)] = 60.0
    watch_timeout: Annotated[float, number(10, 3600)] = 180.0
    otlp_endpoint: _Url = ""
    metrics_namespaces: Names = ()
    metrics_object_names: bool = False
    exposure: Exposure = NOT_EXPOSED
    cluster_dns: Annotated[Names, AfterValidator(_name_servers)] = CLUSTER_DNS
    tls_certificates: CertificateSource = CertificateSource.OPERATOR
    engine_url: Annotated[Names, AfterValidator(_engine_urls)]
    engine_replicas: Annotated[int, BeforeValidator(_stream_replicas)] = 1
    engine_queue_bytes: _Bytes = 256 << 20
    engine_later_bytes: _Bytes = 256 << 20
    engine_runs_bytes: _Bytes = 128 << 20
    engine_dead_letters_bytes: _Bytes = 128 << 20
    engine_dead_letters_days: Annotated[float, number(0.01, 3650)] = 90.0
    engine_history_bytes: _Bytes = 256 << 20
    engine_history_days: Annotated[float, number(0.01, 3650)] = 30.0
    engine_direct_bytes: _Bytes = 128 << 20
    engine_state_bytes: _Bytes = 256 << 20
    engine_audit_bytes: _Bytes = 64 << 20
    engine_audit_days: Annotated[float, number(0.01, 3650)] = 365.0
    engine_packages_bytes: _Bytes = 2 << 30
    engine_volume: Annotated[int, BeforeValidator(_volume)] = 0
    quotas: Annotated[Quotas, BeforeValidator(quotas_setting)] = NO_QUOTAS
    packages_index_url: Annotated[str, AfterValidator(_index_url)] = ""
    packages_index_secret: str = ""
    packages_ca: Annotated[str, AfterValidator(_authorities)] = ""
    packages_architecture: str = Field(default_factory=own_architecture)

    @property
    def own_engine(self) -> bool:
        """Whether the engine is the release's own, with the configuration that the operator writes."""
        return any(f"//{ENGINE}.{self.lease_namespace}." in url for url in self.engine_url)

    @property
    def engine_by_tls(self) -> bool:
        """Whether its servers have certificates of the platform's authority."""
        return self.tls.is_served and self.own_engine

    @property
    def stream_limits(self) -> StreamLimits:
        """What the engine's streams may take."""
        return StreamLimits(
            queue_bytes=self.engine_queue_bytes,
            later_bytes=self.engine_later_bytes,
            runs_bytes=self.engine_runs_bytes,
            dead_letters_bytes=self.engine_dead_letters_bytes,
            dead_letters_age=timedelta(days=self.engine_dead_letters_days),
            history_bytes=self.engine_history_bytes,
            history_age=timedelta(days=self.engine_history_days),
            direct_bytes=self.engine_direct_bytes,
            state_bytes=self.engine_state_bytes,
            audit_bytes=self.engine_audit_bytes,
            audit_age=timedelta(days=self.engine_audit_days),
            packages_bytes=self.engine_packages_bytes,
            replicas=self.engine_replicas,
        )

    @classmethod
    def composed(cls, environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
        """Adds what ``exposure`` reads."""
        found = exposure.read(
            environment,
            url_template=environment.get("TIELINE_PUBLIC_URL_TEMPLATE") or _DEFAULT_TEMPLATE,
            namespaces=listed(environment.get("TIELINE_NAMESPACES", "")),
            problems=problems,
        )
        return super().composed(environment, problems) | {"exposure": found}
