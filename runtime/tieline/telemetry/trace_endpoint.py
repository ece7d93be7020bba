"""Where spans are sent: the API's receiver, or a collector of the user's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from yarl import URL

from tieline.telemetry.client_spans import shown
from tieline_common.authorities import Trust

API_PATH = "/internal/v1/traces"


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A URL that takes OTLP in JSON, and how to be let in."""

    url: str
    token_file: Path | None = None
    """The pod's own token; only ever for the API."""
    trust: Trust | None = None
    """How the API is verified."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Headers for a collector."""

    @property
    def shown(self) -> str:
        """The URL for people: without user, password and query, in which collectors are sent keys."""
        return shown(URL(self.url))

    def headers(self) -> dict[str, str]:
        """Headers of a request; the token is read anew, since it is replaced before it expires. OSError."""
        headers = {**self.given, "Content-Type": "application/json", "Content-Encoding": "gzip"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        return headers


def destination(
    env: Mapping[str, str], *, api_url: str | None, token_file: Path, trust: Trust | None = None
) -> Destination | None:
    """The user's collector when OpenTelemetry's own variables name one, else the API; None without either.

    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is the whole URL, OTEL_EXPORTER_OTLP_ENDPOINT its base,
    OTEL_EXPORTER_OTLP_HEADERS ``name=value`` pairs separated by commas.
    """
    whole = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if whole or base:
        pairs = (pair.partition("=") for pair in env.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(","))
        return Destination(
            url=whole or f"{str(base).rstrip('/')}/v1/traces",
            given={name.strip(): unquote(value.strip()) for name, _, value in pairs if name.strip()},
        )
    if api_url:
        return Destination(url=f"{api_url}{API_PATH}", token_file=token_file, trust=trust)
    return None
