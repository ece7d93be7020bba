"""Settings of the console: where its files are, how long sessions last, and who signs people in."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tieline_core.environment_settings import EnvironmentSettings, number

DEFAULT_FOLDER = "/opt/tieline/console"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether a host name leads to the machine of the browser itself, as browsers take it."""
    return host in _LOOPBACK or host.endswith(".localhost")


def own_namespace() -> str:
    """The namespace of this pod: the release's; empty outside a cluster."""
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _issuer(text: str) -> str:
    parts = urlsplit(text)
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if text and (not safe or not parts.netloc or parts.query or parts.fragment):
        raise ValueError(
            "must be a URL such as https://login.example/realms/company (http for localhost only)"
        )
    return text


def _token(text: str) -> str:
    if text not in ("id", "access"):
        raise ValueError(f"must be id or access, not {text!r}")
    return text


class ConsoleSettings(EnvironmentSettings):
    """The console's part of the API's configuration."""

    public_api_url: str = ""
    console: bool = True
    console_folder: Path = Path(DEFAULT_FOLDER)
    console_session_hours: Annotated[float, number(0.01, 168)] = 12.0
    console_idle_minutes: Annotated[float, number(0.1, 10080)] = 60.0
    console_tokens: bool = True
    """Whether people may paste a token or an API key."""
    console_keys_namespace: str = Field(default_factory=own_namespace)
    """Where the Secret with the keys of sessions is; empty: the keys are this process's own."""
    console_oidc_issuer: Annotated[str, AfterValidator(_issuer)] = ""
    console_oidc_client_id: str = ""
    console_oidc_client_secret_file: Path | None = None
    console_oidc_scopes: str = "openid"
    console_oidc_name: str = ""
    console_oidc_token: Annotated[Literal["id", "access"], BeforeValidator(_token)] = "id"  # noqa: S105

    @model_validator(mode="after")
    def _signs_in(self) -> Self:
        if not self.console or not self.console_oidc_issuer:
            return self
        if not self.console_oidc_client_id:
            raise ValueError("TIELINE_CONSOLE_OIDC_ISSUER needs TIELINE_CONSOLE_OIDC_CLIENT_ID too")
        if "openid" not in self.console_oidc_scopes.split():
            raise ValueError("TIELINE_CONSOLE_OIDC_SCOPES must hold the scope openid")
        public = urlsplit(self.public_api_url)
        if public.scheme != "https" and not is_loopback(public.hostname or ""):
            raise ValueError(
                "TIELINE_CONSOLE_OIDC_ISSUER needs TIELINE_PUBLIC_API_URL with https:// (http for localhost only): "
                "the issuer sends people back to it"
            )
        return self
