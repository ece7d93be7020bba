"""The API's configuration: environment variables, checked at the start.

| variable | default | meaning |
|---|---|---|
| TIELINE_LISTEN_HOST | 0.0.0.0 | address to listen on |
| TIELINE_LISTEN_PORT | 8080 | port of the REST API |
| TIELINE_INTERNAL_PORT | 8081 | port of the endpoints for project pods |
| TIELINE_TLS | disabled | whether project pods are served by TLS: disabled, optional (as well) or required |
| TIELINE_INTERNAL_TLS_PORT | 8443 | port for project pods by TLS |
| TIELINE_TLS_FOLDER | (none) | folder with its certificate (tls.crt) and key (tls.key); read again when they change |
| TIELINE_ACTIVATOR_PORT | 8082 | port that answers for environments without pods |
| TIELINE_METRICS_PORT | 9090 | port of Prometheus' metrics |
| TIELINE_KUBE_CONTEXT | (current) | context of the kubeconfig; in a cluster the pod's own account is used |
| TIELINE_KUBE_TIMEOUT_SECONDS | 10 | longest wait for an answer of Kubernetes (1 to 60) |
| TIELINE_NAMESPACES | (all) | one namespace: the API sees that organisation alone; several are served like all |
| TIELINE_PUBLIC_API_URL | (none) | base URL that browsers reach the API at; OAuth redirects to <it>/oauth2/callback |
| TIELINE_REDIRECT_URLS | (none) | pages of applications that OAuth may redirect to instead, separated by commas |
| TIELINE_LOOPBACK_REDIRECTS | true | whether OAuth may redirect to programs on the user's own machine: true or false |
| TIELINE_CONNECT_PAGE_URL | the hosted page | a page of your own for end users that connect sessions lead to |
| TIELINE_CONNECT_BRAND_FILE | (none) | file with the name, colours and texts of the hosted page |
| TIELINE_OAUTH_STATE_SECONDS | 600 | how long a user may take to authorise (60 to 3600) |
| TIELINE_ISSUERS_FILE | (none) | file with the issuers of JWTs (docs/api.md); read again when it changes |
| TIELINE_RATE_LIMIT | 6000 | requests a minute of one caller at one replica; 0 for no limit (0 to 1000000) |
| TIELINE_END_USER_RATE_LIMIT | 300 | requests a minute of one end user at one replica; 0 for no limit (0 to 1000000) |
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
| TIELINE_AUDIT_OTLP_URL | (none) | where audit records are sent as OTLP logs over HTTP (the whole URL) |
| TIELINE_AUDIT_HEADERS_FILE | (none) | file with headers for it, Name: value a line; read again when it changes |
| TIELINE_ENGINE_URL | (required) | the event engine: URLs of NATS servers, separated by commas |
| TIELINE_ENGINE_CREDENTIALS_FILE | (required) | credentials file for the engine; read again for each connection |
| TIELINE_ENGINE_SIGNER_FILE | (required) | seed of the key for users of environments' accounts; read likewise |
| TIELINE_ENGINE_CA_FILE | (none) | authorities of the engine's certificate (PEM): with them by TLS alone |
| TIELINE_RUNS_FILE | tieline-runs.db beside the traces | the index of runs, made anew from the engine when missing |
| TIELINE_RUNS_MEBIBYTES | 256 | what the index of runs may take; beyond it the oldest go (16 to 1000000) |
| TIELINE_QUOTAS | (none) | quotas of organisations that have no others, in YAML or JSON |
| TIELINE_CONSOLE | true | whether the API serves the console at /console: true or false |
| TIELINE_CONSOLE_FOLDER | /opt/tieline/console | the folder with the console's files |
| TIELINE_CONSOLE_SESSION_HOURS | 12 | how long one is signed in to the console at most (0.01 to 168) |
| TIELINE_CONSOLE_IDLE_MINUTES | 60 | how long a session of the console may be unused (0.1 to 10080) |
| TIELINE_CONSOLE_TOKENS | true | whether one may sign in to the console with a token or an API key |
| TIELINE_CONSOLE_KEYS_NAMESPACE | (the pod's own) | where the Secret with the keys of sessions is |
| TIELINE_CONSOLE_OIDC_ISSUER | (none) | the OpenID Connect issuer that signs people in to the console |
| TIELINE_CONSOLE_OIDC_CLIENT_ID | (none) | the console's client there |
| TIELINE_CONSOLE_OIDC_CLIENT_SECRET_FILE | (none) | file with its secret; read for each token request |
| TIELINE_CONSOLE_OIDC_SCOPES | openid | scopes to ask for, separated by spaces |
| TIELINE_CONSOLE_OIDC_NAME | the issuer's host | what the button says |
| TIELINE_CONSOLE_OIDC_TOKEN | id | the token that the API is called with: id or access |
| TIELINE_EGRESS_ALLOWED | (none) | inner networks and names that token requests may reach, separated by commas |
| TIELINE_EGRESS_DENIED | (none) | public networks that they may not reach, separated by commas |
| TIELINE_LOG_LEVEL | INFO | DEBUG, INFO, WARNING or ERROR |
"""

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tieline_api.body_limits import MIB, BodyLimits
from tieline_api.client_address import Network, networks
from tieline_api.console_settings import ConsoleSettings
from tieline_api.origins import web_origin
from tieline_core.environment_settings import Names, listed, number
from tieline_core.resources.quotas import NO_QUOTAS, Quotas, quotas_setting
from tieline_protocol.event_streams import MAX_MESSAGE_BYTES

CALLBACK = "/oauth2/callback"
"""Where providers send users back to: a path below the API's public address."""
DEFAULT_REQUEST_ID_HEADER = "X-Request-Id"
DEFAULT_TRACES_FILE = "/tmp/tieline-traces.db"  # noqa: S108  (the pod's own emptyDir)


def served_namespace(text: str) -> str | None:
    """The only namespace of TIELINE_NAMESPACES; None for all."""
    names = listed(text)
    return names[0] if len(names) == 1 else None


def _networks(names: Any) -> Any:
    try:
        return networks(listed(names))
    except ValueError as error:
        raise ValueError(f"must hold networks such as 10.0.0.0/8, not {error}") from None


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", text):
        raise ValueError(f"must be the name of a header such as X-Request-Id, not {text!r}")
    return text


def _store(text: str) -> str:
    if text.lower() not in ("embedded", "tempo", "jaeger"):
        raise ValueError(f"must be embedded, tempo or jaeger, not {text!r}")
    return text.lower()


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise ValueError("must be a URL such as https://tieline.example")
    return text.rstrip("/")


def _redirect(text: str) -> str:
    parts = urlsplit(text)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    safe = parts.scheme == "https" or (parts.scheme == "http" and local)
    if not parts.netloc or parts.fragment or not safe:
        raise ValueError(
            "must hold whole URLs such as https://app.example/connected (http for localhost only, no #…), "
            f"not {text!r}"
        )
    return text


def _engine_urls(found: tuple[str, ...]) -> tuple[str, ...]:
    for one in found:
        parts = urlsplit(one)
        if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.username or parts.path:
            raise ValueError("must hold URLs such as nats://tieline-engine:4222, separated by commas")
    if not found:
        raise ValueError("must hold the URL of at least one server")
    return found


_BaseUrl = Annotated[str, AfterValidator(_base_url)]
_Mebibytes = Annotated[float, number(1, 64)]


class Settings(ConsoleSettings):
    """The API's configuration."""

    listen_host: str = "0.0.0.0"  # noqa: S104  (a pod serves its Service)
    kube_context: str | None = None
    kube_timeout_seconds: Annotated[float, number(1, 60)] = 10.0
    namespace: Annotated[str | None, BeforeValidator(served_namespace)] = Field(
        None, validation_alias="TIELINE_NAMESPACES"
    )
    """The one that is served; None: all."""
    public_api_url: _BaseUrl = ""
    connect_page_url: _BaseUrl = ""
    connect_brand_file: str | None = None
    redirect_urls: Annotated[
        frozenset[Annotated[str, AfterValidator(_redirect)]], BeforeValidator(listed)
    ] = frozenset()
    loopback_redirects: bool = True
    oauth_state_seconds: Annotated[float, number(60, 3600)] = 600.0
    issuers_file: str | None = None
    rate_limit: Annotated[int, number(0, 1_000_000, int)] = 6000
    end_user_rate_limit: Annotated[int, number(0, 1_000_000, int)] = 300
    failed_limit: Annotated[int, number(0, 100_000, int)] = 60
    trusted_proxies: Annotated[tuple[Network, ...], BeforeValidator(_networks)] = ()
    body_mebibytes: Annotated[float, number(0.1, 64)] = 1.0
    credentials_body_mebibytes: _Mebibytes = 16.0
    files_body_mebibytes: _Mebibytes = 24.0
    upload_mebibytes: _Mebibytes = 64.0
    body_seconds: Annotated[float, number(1, 600)] = 60.0
    request_id_header: Annotated[str, AfterValidator(_header)] = DEFAULT_REQUEST_ID_HEADER
    revision_seconds: Annotated[float, number(0, 10)] = 2.0
    cors_origins: Annotated[
        frozenset[Annotated[str, AfterValidator(web_origin)]], BeforeValidator(listed)
    ] = frozenset()
    token_audiences: Names = ()
    token_cache_seconds: Annotated[float, number(0, 300)] = 60.0
    access_cache_seconds: Annotated[float, number(0, 60)] = 10.0
    away_seconds: Annotated[float, number(0, 3600)] = 300.0
    stale_seconds: Annotated[float, number(5, 3600)] = 90.0
    drain_seconds: Annotated[float, number(0, 20)] = 3.0
    shutdown_seconds: Annotated[float, number(1, 300)] = 30.0
    traces_file: str = DEFAULT_TRACES_FILE
    traces_mebibytes: Annotated[int, number(16, 1_000_000, int)] = 512
    traces_days: Annotated[float, number(0.01, 3650)] = 7.0
    traces_store: Annotated[str, AfterValidator(_store)] = "embedded"
    traces_otlp_url: _BaseUrl = ""
    traces_query_url: _BaseUrl = ""
    traces_headers_file: str | None = None
    audit_otlp_url: _BaseUrl = ""
    audit_headers_file: str | None = None
    engine_url: Annotated[Names, AfterValidator(_engine_urls)]
    engine_credentials_file: Path
    engine_signer_file: Path
    engine_ca_file: Path | None = None
    tls_folder: Path | None = None
    runs_file: str | None = None
    runs_mebibytes: Annotated[int, number(16, 1_000_000, int)] = 256
    quotas: Annotated[Quotas, BeforeValidator(quotas_setting)] = NO_QUOTAS

    @property
    def runs_path(self) -> Path:
        """The file with the index of runs."""
        return Path(self.runs_file) if self.runs_file else Path(self.traces_file).with_name("tieline-runs.db")

    @property
    def callback_url(self) -> str:
        """Where providers send users back to; "" while browsers cannot reach this API."""
        return f"{self.public_api_url}{CALLBACK}" if self.public_api_url else ""

    def connect_page(self, session: str) -> str:
        """The page of a connect session (``organisation/key``): your own, or ours; "" where neither has a URL."""
        if self.connect_page_url or not self.public_api_url:
            return self.connect_page_url
        return f"{self.public_api_url}/connect/{session}"

    @cached_property
    def own_origins(self) -> frozenset[str]:
        """The origins of the platform's own pages."""
        return frozenset(
            f"{parts.scheme}://{parts.netloc}".lower()
            for url in (self.public_api_url, self.connect_page_url)
            if url and (parts := urlsplit(url))
        )

    @cached_property
    def sizes(self) -> BodyLimits:
        """How large bodies may be, in bytes."""
        return BodyLimits(
            body=int(self.body_mebibytes * MIB),
            credentials=int(self.credentials_body_mebibytes * MIB),
            files=int(self.files_body_mebibytes * MIB),
            upload=int(self.upload_mebibytes * MIB),
            # With room for spaces and for the other fields.
            event=2 * MAX_MESSAGE_BYTES,
            seconds=self.body_seconds,
        )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        needed = {
            "TIELINE_TRACES_OTLP_URL": self.traces_otlp_url,
            "TIELINE_TRACES_QUERY_URL": self.traces_query_url,
        }
        missing = [name for name, url in needed.items() if not url]
        if self.traces_store != "embedded" and missing:
            raise ValueError(f"TIELINE_TRACES_STORE={self.traces_store} needs {' and '.join(missing)} too")
        if self.tls.is_served and self.tls_folder is None:
            raise ValueError(f"TIELINE_TLS={self.tls} needs TIELINE_TLS_FOLDER too")
        ports = [self.listen_port, self.internal_port, self.activator_port, self.metrics_port]
        if self.tls.is_served:
            ports.append(self.internal_tls_port)
        if len(set(ports)) < len(ports):
            by_tls = "TIELINE_INTERNAL_TLS_PORT, " if self.tls.is_served else ""
            raise ValueError(
                f"TIELINE_LISTEN_PORT, TIELINE_INTERNAL_PORT, {by_tls}TIELINE_ACTIVATOR_PORT and TIELINE_METRICS_PORT "
                "must be different ports"
            )
        return self
