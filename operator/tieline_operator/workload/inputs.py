"""What the manifests of an environment's workload are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tieline_core.identity.names import (
    ENVIRONMENT_ID_LABEL,
    ENVIRONMENT_LABEL,
    INSTANCE_LABEL,
    PROJECT_LABEL,
    RUNS_CODE,
    label_value,
)
from tieline_core.resources.placement import Placement
from tieline_core.resources.projects import Runtime, merged_fields
from tieline_operator.workload import network_policies
from tieline_operator.workload.exposure import NOT_EXPOSED, Exposure
from tieline_operator.workload.secret_variables import SecretVariable
from tieline_protocol.egress import PUBLIC_ONLY, Egress

ACTIVATOR_PORT = 8082


@dataclass(frozen=True)
class Packages:
    """Installed packages that pods unpack."""

    ANNOTATION: ClassVar = "tieline.dev/packages"
    """On a pod template: the packages as one text."""

    key: str
    digest: str

    def __str__(self) -> str:
        return f"{self.key}/{self.digest}"

    @classmethod
    def parsed(cls, text: str) -> "Packages | None":
        """The packages in such a text; None for any other."""
        key, _, digest = text.partition("/")
        return cls(key, digest) if key and digest else None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All that an environment's manifests are made of."""

    name: str
    namespace: str
    owner: Mapping[str, Any]
    """ownerReference to the Project."""
    organisation_id: str
    project: str
    project_id: str
    environment: str
    environment_id: str
    runtime: Runtime
    """The project's runtime with the environment's over it."""
    secret_variables: Sequence[SecretVariable] = ()
    """Environment variables that come from Secrets; the runtime's others are values."""
    placement: Placement = field(default_factory=Placement)
    """Where the pods run, and what is mounted into them."""
    mounted_secrets: Sequence[tuple[str, str]] = ()
    """The names and versions of the Secrets that are mounted for code."""
    image: str
    packages_image: str = ""
    """What installs packages and unpacks them: the platform's own, whatever image the code has."""
    architecture: str = ""
    """That of the nodes for pods with packages."""
    pull_secrets: Sequence[str] = ()
    """Names of Secrets that the platform is configured to pull with, beside the project's own."""
    replicas: int
    api_url: str
    public_url: str
    api_ports: Mapping[str, Sequence[int]] = field(default_factory=lambda: network_policies.API_PORTS)
    """The ports of the API's pods behind each of its Services."""
    tls: bool = False
    """Whether the pods speak TLS with the API. They trust the authorities in a ConfigMap of their namespace."""
    engine_by_tls: bool = False
    """Whether they do so with the event engine."""
    activator_port: int = ACTIVATOR_PORT
    """Where the API's pods answer for environments without pods."""
    egress: Egress = PUBLIC_ONLY
    """Where the pods may go."""
    engine_urls: Sequence[str]
    """Of the event engine's servers."""
    otlp_endpoint: str = ""
    """A collector for their traces, instead of the API."""
    metrics_namespaces: Sequence[str] = ()
    """The namespaces that may scrape their metrics."""
    cluster_dns: Sequence[str] = network_policies.CLUSTER_DNS
    """The namespaces and networks of the name servers that they may ask."""
    exposure: Exposure = NOT_EXPOSED
    """How they are exposed at the public URL."""
    tls_secret: str = ""
    """The Secret with the certificate of an Ingress."""

    @property
    def selector(self) -> dict[str, str]:
        """See ``selector``."""
        return selector(self.name)

    @property
    def labels(self) -> dict[str, str]:
        return {
            **self.selector,
            "app.kubernetes.io/part-of": "tieline",
            "app.kubernetes.io/managed-by": "tieline-operator",
            PROJECT_LABEL: label_value(self.project),
            ENVIRONMENT_LABEL: self.environment,
            ENVIRONMENT_ID_LABEL: self.environment_id,
        }


def selector(workload: str) -> dict[str, str]:
    """Labels of pods that never change while the workload lives (a Deployment's selector is immutable)."""
    return {**RUNS_CODE, INSTANCE_LABEL: workload}


def merged_runtime(base: Runtime, override: Runtime | None) -> Runtime:
    """The project's runtime with what the environment sets over it, field by field."""
    if override is None:
        return base
    return Runtime.model_validate(merged_fields(base.to_dict(), override.to_dict()))
