"""The API's configuration: environment variables, checked at the start.

| variable | default | meaning |
|---|---|---|
| TIELINE_LISTEN_HOST | 0.0.0.0 | address to listen on |
| TIELINE_LISTEN_PORT | 8080 | port of the REST API |
| TIELINE_INTERNAL_PORT | 8081 | port of the endpoints for project pods |
| TIELINE_METRICS_PORT | 9090 | port of Prometheus' metrics |
| TIELINE_KUBE_CONTEXT | (current) | context of the kubeconfig; in a cluster the pod's own account is used |
| TIELINE_KUBE_TIMEOUT_SECONDS | 10 | longest wait for an answer of Kubernetes (1 to 60) |
| TIELINE_NAMESPACES | (all) | one namespace: the API sees that organisation alone; several are served like all |
| TIELINE_PUBLIC_API_URL | (none) | base URL that browsers reach the API at; OAuth redirects to <it>/oauth2/callback |
| TIELINE_REDIRECT_URLS | (none) | pages of applications that OAuth may redirect to instead, separated by commas |
| TIELINE_LOOPBACK_REDIRECTS | true | whether OAuth may redirect to programs on the user's own machine: true or false |
| TIELINE_OAUTH_STATE_SECONDS | 600 | how long a user may take to authorise (60 to 3600) |
| TIELINE_ISSUERS_FILE | (none) | file with the issuers of JWTs (docs/api.md); read again when it changes |
| TIELINE_RATE_LIMIT | 6000 | requests a minute of one caller at one replica; 0 for no limit (0 to 1000000) |
| TIELINE_FAILED_LIMIT | 60 | failed authentications a minute of one address; 0 for no limit (0 to 100000) |
| TIELINE_TRUSTED_PROXIES | (none) | networks whose X-Forwarded-For tells the address, separated by commas |
| TIELINE_BODY_MEBIBYTES | 1 | largest body of a request (0.1 to 64) |
| TIELINE_CREDENTIALS_BODY_MEBIBYTES | 16 | largest body with credentials (1 to 64) |
| TIELINE_FILES_BODY_MEBIBYTES | 24 | largest body with a project's files, as JSON (1 to 64) |
| TIELINE_UPLOAD_MEBIBYTES | 64 | largest description to import (1 to 64) |
| TIELINE_BODY_SECONDS | 60 | how long a body may take to arrive, a description twice as long (1 to 600) |
| TIELINE_REQUEST_ID_HEADER | X-Request-Id | header with the id of a request |
| TIELINE_REVISION_SECONDS | 2 | longest wait until this replica knows the X-Tieline-Revision of a request (0 to 10) |
| TIELINE_CORS_ORIGINS | (none) | origins of front ends that may call from a browser, separated by commas |
| TIELINE_TOKEN_AUDIENCES | (the API server's) | audiences that callers' cluster tokens must have, separated by commas |
| TIELINE_TOKEN_CACHE_SECONDS | 60 | how long an accepted token is not checked again (0 to 300) |
| TIELINE_ACCESS_CACHE_SECONDS | 10 | how long a permission is not asked again (0 to 60) |
| TIELINE_AWAY_SECONDS | 300 | how much longer tokens and permissions count while Kubernetes is away (0 to 3600) |
| TIELINE_STALE_SECONDS | 90 | silence of Kubernetes after which answers carry X-Tieline-Stale anyhow (5 to 3600) |
| TIELINE_DRAIN_SECONDS | 3 | after SIGTERM new requests are taken until none has come for so long (0 to 20) |
| TIELINE_SHUTDOWN_SECONDS | 30 | how long requests in flight may take to finish at the end (1 to 300) |
| TIELINE_TRACES_FILE | /tmp/tieline-traces.db | where traces are kept; on a PersistentVolume they outlive the pod |
| TIELINE_TRACES_MEBIBYTES | 512 | what traces may take; beyond it the oldest go (16 to 1000000) |
| TIELINE_TRACES_DAYS | 7 | how long traces are kept (0.01 to 3650) |
| TIELINE_TRACES_STORE | embedded | where traces are kept: embedded, tempo or jaeger |
| TIELINE_TRACES_OTLP_URL | (none) | where tempo or jaeger takes OTLP over HTTP (the whole URL) |
| TIELINE_TRACES_QUERY_URL | (none) | base URL of the HTTP API of tempo or jaeger |
| TIELINE_TRACES_HEADERS_FILE | (none) | file with headers for both, Name: value a line; read again when it changes |
| TIELINE_EGRESS_ALLOWED | (none) | inner networks and names that token requests may reach, separated by commas |
| TIELINE_EGRESS_DENIED | (none) | public networks that they may not reach, separated by commas |
| TIELINE_LOG_LEVEL | INFO | DEBUG, INFO, WARNING or ERROR |
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tieline_api.body_limits import DEFAULT_BODY_LIMITS, MIB, BodyLimits
from tieline_api.client_address import Network, networks
from tieline_protocol.egress import PUBLIC_ONLY, Egress

DEFAULT_REQUEST_ID_HEADER = "X-Request-Id"
DEFAULT_TRACES_FILE = "/tmp/tieline-traces.db"  # noqa: S108  (the pod's own emptyDir)


class SettingsError(Exception):
    """A variable has a value that cannot be; the message names it and what it may be."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The API's configuration."""

    listen_host: str = "0.0.0.0"  # noqa: S104  (a pod serves its Service)
    listen_port: int = 8080
    internal_port: int = 8081
    metrics_port: int = 9090
    kube_context: str | None = None
    kube_timeout_seconds: float = 10.0
    namespace: str | None = None
    """The one that is served; None: all."""
    public_api_url: str = ""
    redirect_urls: frozenset[str] = frozenset()
    loopback_redirects: bool = True
    oauth_state_seconds: float = 600.0
    issuers_file: str | None = None
    rate_limit: int = 6000
    failed_limit: int = 60
    trusted_proxies: tuple[Network, ...] = ()
    sizes: BodyLimits = DEFAULT_BODY_LIMITS
    request_id_header: str = DEFAULT_REQUEST_ID_HEADER
    revision_seconds: float = 2.0
    cors_origins: frozenset[str] = frozenset()
    token_audiences: tuple[str, ...] = ()
    token_cache_seconds: float = 60.0
    access_cache_seconds: float = 10.0
    away_seconds: float = 300.0
    stale_seconds: float = 90.0
    drain_seconds: float = 3.0
    shutdown_seconds: float = 30.0
    traces_file: str = DEFAULT_TRACES_FILE
    traces_mebibytes: int = 512
    traces_days: float = 7.0
    traces_store: str = "embedded"
    traces_otlp_url: str = ""
    traces_query_url: str = ""
    traces_headers_file: str | None = None
    egress: Egress = PUBLIC_ONLY
    log_level: str = "INFO"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The configuration of ``environment``; raises SettingsError."""
        settings = cls(
            listen_host=environment.get("TIELINE_LISTEN_HOST") or cls.listen_host,
            listen_port=_port(environment, "TIELINE_LISTEN_PORT", cls.listen_port),
            internal_port=_port(environment, "TIELINE_INTERNAL_PORT", cls.internal_port),
            metrics_port=_port(environment, "TIELINE_METRICS_PORT", cls.metrics_port),
            kube_context=environment.get("TIELINE_KUBE_CONTEXT") or None,
            kube_timeout_seconds=_number(
                environment, "TIELINE_KUBE_TIMEOUT_SECONDS", default=10, low=1, high=60
            ),
            namespace=served_namespace(environment),
            public_api_url=_base_url(environment, "TIELINE_PUBLIC_API_URL"),
            redirect_urls=frozenset(
                _redirect(text) for text in _listed(environment, "TIELINE_REDIRECT_URLS")
            ),
            loopback_redirects=_truth(environment, "TIELINE_LOOPBACK_REDIRECTS", default=True),
            oauth_state_seconds=_number(
                environment, "TIELINE_OAUTH_STATE_SECONDS", default=600, low=60, high=3600
            ),
            issuers_file=environment.get("TIELINE_ISSUERS_FILE") or None,
            rate_limit=int(_number(environment, "TIELINE_RATE_LIMIT", default=6000, low=0, high=1_000_000)),
            failed_limit=int(_number(environment, "TIELINE_FAILED_LIMIT", default=60, low=0, high=100_000)),
            trusted_proxies=_networks(environment, "TIELINE_TRUSTED_PROXIES"),
            sizes=_sizes(environment),
            request_id_header=_header(environment, "TIELINE_REQUEST_ID_HEADER"),
            revision_seconds=_number(environment, "TIELINE_REVISION_SECONDS", default=2, low=0, high=10),
            cors_origins=frozenset(_origin(text) for text in _listed(environment, "TIELINE_CORS_ORIGINS")),
            token_audiences=tuple(_listed(environment, "TIELINE_TOKEN_AUDIENCES")),
            token_cache_seconds=_number(
                environment, "TIELINE_TOKEN_CACHE_SECONDS", default=60, low=0, high=300
            ),
            access_cache_seconds=_number(
                environment, "TIELINE_ACCESS_CACHE_SECONDS", default=10, low=0, high=60
            ),
            away_seconds=_number(environment, "TIELINE_AWAY_SECONDS", default=300, low=0, high=3600),
            stale_seconds=_number(environment, "TIELINE_STALE_SECONDS", default=90, low=5, high=3600),
            drain_seconds=_number(environment, "TIELINE_DRAIN_SECONDS", default=3, low=0, high=20),
            shutdown_seconds=_number(environment, "TIELINE_SHUTDOWN_SECONDS", default=30, low=1, high=300),
            traces_file=environment.get("TIELINE_TRACES_FILE") or DEFAULT_TRACES_FILE,
            traces_mebibytes=int(
                _number(environment, "TIELINE_TRACES_MEBIBYTES", default=512, low=16, high=1_000_000)
            ),
            traces_days=_number(environment, "TIELINE_TRACES_DAYS", default=7, low=0.01, high=3650),
            traces_store=_traces_store(environment),
            traces_otlp_url=_base_url(environment, "TIELINE_TRACES_OTLP_URL"),
            traces_query_url=_base_url(environment, "TIELINE_TRACES_QUERY_URL"),
            traces_headers_file=environment.get("TIELINE_TRACES_HEADERS_FILE") or None,
            egress=_egress(environment),
            log_level=_level(environment.get("TIELINE_LOG_LEVEL") or "INFO"),
        )
        if len({settings.listen_port, settings.internal_port, settings.metrics_port}) < 3:
            raise SettingsError(
                "TIELINE_LISTEN_PORT, TIELINE_INTERNAL_PORT and TIELINE_METRICS_PORT must be three different ports"
            )
        return settings


def _sizes(environment: Mapping[str, str]) -> BodyLimits:
    def mebibytes(name: str, *, default: float, low: float = 1) -> int:
        return int(_number(environment, name, default=default, low=low, high=64) * MIB)

    return BodyLimits(
        body=mebibytes("TIELINE_BODY_MEBIBYTES", default=1, low=0.1),
        credentials=mebibytes("TIELINE_CREDENTIALS_BODY_MEBIBYTES", default=16),
        files=mebibytes("TIELINE_FILES_BODY_MEBIBYTES", default=24),
        upload=mebibytes("TIELINE_UPLOAD_MEBIBYTES", default=64),
        seconds=_number(environment, "TIELINE_BODY_SECONDS", default=60, low=1, high=600),
    )


def _header(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name) or DEFAULT_REQUEST_ID_HEADER
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", text):
        raise SettingsError(f"{name} must be the name of a header such as X-Request-Id, not {text!r}")
    return text


def _traces_store(environment: Mapping[str, str]) -> str:
    store = (environment.get("TIELINE_TRACES_STORE") or "embedded").lower()
    if store not in ("embedded", "tempo", "jaeger"):
        raise SettingsError(f"TIELINE_TRACES_STORE must be embedded, tempo or jaeger, not {store!r}")
    needed = ("TIELINE_TRACES_OTLP_URL", "TIELINE_TRACES_QUERY_URL")
    missing = [name for name in needed if not environment.get(name)]
    if store != "embedded" and missing:
        raise SettingsError(f"TIELINE_TRACES_STORE={store} needs {' and '.join(missing)} too")
    return store


def _egress(environment: Mapping[str, str]) -> Egress:
    try:
        return Egress.from_environment(environment)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _listed(environment: Mapping[str, str], name: str) -> list[str]:
    return [item.strip() for item in environment.get(name, "").split(",") if item.strip()]


def served_namespace(environment: Mapping[str, str]) -> str | None:
    """The only one that is served; None for all."""
    names = _listed(environment, "TIELINE_NAMESPACES")
    return names[0] if len(names) == 1 else None


def _networks(environment: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return networks(_listed(environment, name))
    except ValueError as error:
        raise SettingsError(f"{name} must hold networks such as 10.0.0.0/8, not {error}") from None


def _number(environment: Mapping[str, str], name: str, *, default: float, low: float, high: float) -> float:
    text = environment.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise SettingsError(f"{name} must be a number from {low:g} to {high:g}, not {text!r}")
    return value


def _truth(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise SettingsError(f"{name} must be true or false, not {text!r}")
    return text == "true" if text else default


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    return int(_number(environment, name, default=default, low=1, high=65535))


def _base_url(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name, "").rstrip("/")
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise SettingsError(f"{name} must be a URL such as https://tieline.example, not {text!r}")
    return text


def _redirect(text: str) -> str:
    parts = urlsplit(text)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if (
        not parts.netloc
        or parts.fragment
        or not (parts.scheme == "https" or (parts.scheme == "http" and local))
    ):
        raise SettingsError(
            "TIELINE_REDIRECT_URLS must hold whole URLs such as https://app.example/connected (http for localhost "
            f"only, no #…), not {text!r}"
        )
    return text


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query:
        raise SettingsError(
            f"TIELINE_CORS_ORIGINS must hold origins such as https://app.example, not {text!r}"
        )
    return f"{parts.scheme}://{parts.netloc}".lower()


def _level(text: str) -> str:
    level = text.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise SettingsError(f"TIELINE_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, not {text!r}")
    return level
