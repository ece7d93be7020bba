"""The settings that say how environments are reached from outside the cluster.

| variable | default | what it is |
|---|---|---|
| TIELINE_EXPOSE | none | ingress or httproute: the operator makes one for each environment, for its public URL |
| TIELINE_INGRESS_CLASS | (the cluster's) | class of the Ingresses |
| TIELINE_INGRESS_TLS_SECRET | (the controller's) | Secret with the certificate for https; may have placeholders |
| TIELINE_GATEWAY | (required for httproute) | the Gateway: namespace/name, or namespace/name/listener |
| TIELINE_EXPOSE_ANNOTATIONS | (none) | annotations of Ingresses or HTTPRoutes, a JSON object |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from tieline_operator.workload.public_urls import PLACEHOLDERS, address, placeholders

_URL = "TIELINE_PUBLIC_URL_TEMPLATE"
# Each of these is unique in the cluster. Names repeat from namespace to namespace.
_UNIQUE = (
    {"environmentId"},
    {"namespace", "name"},
    {"namespace", "project", "environment"},
)
_MAX_GATEWAY_PARTS = 3


class ExposureMode(StrEnum):
    """How an environment is reachable from outside."""

    NONE = "none"
    INGRESS = "ingress"
    HTTP_ROUTE = "httproute"


@dataclass(frozen=True)
class Gateway:
    """The Gateway that routes are attached to."""

    namespace: str
    name: str
    listener: str = ""
    """One of its listeners, by name; empty for all that take the host."""


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """How environments are exposed."""

    mode: ExposureMode = ExposureMode.NONE
    ingress_class: str = ""
    tls_secret: str = ""
    gateway: Gateway | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


NOT_EXPOSED = Exposure()


def read(
    env: Mapping[str, str], *, url_template: str, namespaces: Sequence[str], problems: list[str]
) -> Exposure:
    """Reads the variables; appends what is wrong with them, or with the URLs' template, to ``problems``."""
    found: list[str] = []
    exposure = Exposure(
        mode=_mode(env, found),
        ingress_class=env.get("TIELINE_INGRESS_CLASS", "").strip(),
        tls_secret=_secret(env, found),
        gateway=_gateway(env, found),
        annotations=_annotations(env, found),
    )
    if exposure.mode is ExposureMode.HTTP_ROUTE and exposure.gateway is None and not found:
        found.append("TIELINE_GATEWAY is not set: it says which Gateway, as namespace/name")
    if exposure.mode is not ExposureMode.NONE:
        found.extend(_template_problems(exposure.mode, url_template, alone=len(namespaces) == 1))
    problems.extend(found)
    return NOT_EXPOSED if found else exposure


def _mode(env: Mapping[str, str], problems: list[str]) -> ExposureMode:
    text = env.get("TIELINE_EXPOSE", "").strip().lower() or ExposureMode.NONE
    try:
        return ExposureMode(text)
    except ValueError:
        problems.append(f"TIELINE_EXPOSE must be one of {', '.join(ExposureMode)}, it is {text!r}")
        return ExposureMode.NONE


def _secret(env: Mapping[str, str], problems: list[str]) -> str:
    template = env.get("TIELINE_INGRESS_TLS_SECRET", "").strip()
    try:
        unknown = placeholders(template) - PLACEHOLDERS
    except ValueError as error:
        problems.append(f"TIELINE_INGRESS_TLS_SECRET is no template: {error}")
        return ""
    if unknown:
        problems.append(f"TIELINE_INGRESS_TLS_SECRET has unknown placeholders {sorted(unknown)}")
    return template


def _gateway(env: Mapping[str, str], problems: list[str]) -> Gateway | None:
    text = env.get("TIELINE_GATEWAY", "").strip()
    if not text:
        return None
    parts = text.split("/")
    if not all(parts) or not 1 < len(parts) <= _MAX_GATEWAY_PARTS:
        problems.append(f"TIELINE_GATEWAY must be namespace/name or namespace/name/listener, it is {text!r}")
        return None
    return Gateway(*parts)


def _annotations(env: Mapping[str, str], problems: list[str]) -> Mapping[str, str]:
    text = env.get("TIELINE_EXPOSE_ANNOTATIONS", "").strip()
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    problems.append("TIELINE_EXPOSE_ANNOTATIONS must be a JSON object of texts")
    return {}


def _template_problems(mode: ExposureMode, template: str, *, alone: bool) -> Sequence[str]:
    """``alone``: whether one namespace is served only, so that names in it are enough."""
    try:
        used = placeholders(template)
    except ValueError:
        return []  # reported already
    if "clusterIP" in used:
        return [f"{_URL} must lead to a host name where TIELINE_EXPOSE is {mode}, not to {{clusterIP}}"]
    problems = []
    known = used | {"namespace"} if alone else used
    if not any(unique <= known for unique in _UNIQUE):
        problems.append(
            f"{_URL} must tell environments of different namespaces apart: use {{name}} and {{namespace}}, "
            "or {environmentId}"
        )
    if mode is ExposureMode.INGRESS and address(template).path:
        problems.append(
            f"{_URL} must have no path where TIELINE_EXPOSE is ingress (an Ingress cannot take it off again)"
        )
    return problems
