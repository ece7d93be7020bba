"""The server's settings, all from environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tieline.connectors.answers import AnswerChecks
from tieline.connectors.requests import RequestChecks
from tieline.errors import ConfigurationError
from tieline_common.authorities import Trust, file_trust
from tieline_protocol.egress import ALLOWED, Egress
from tieline_protocol.event_streams import LEASE_SECONDS

_MIB = 1024 * 1024
_Checks = TypeVar("_Checks", bound=StrEnum)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``python -m tieline.server`` gets from its environment; times are seconds."""

    code_dir: Path
    packages_dir: Path | None
    """The packages of the code's lock."""
    api_url: str | None
    token_file: Path
    api_trust: Trust | None
    """How the API is verified; None where the platform has no authority of its own for it."""
    connections_file: Path | None
    state_file: Path | None
    """Where schedules and ctx.state are kept, where no API does it."""
    schema_file: Path | None
    """The schema of variables, where no API tells it."""
    termination_log: Path
    host: str | None
    port: int
    health_port: int
    listen_fd: int | None
    """A socket that is listened on already, instead of the port: ``tieline run`` hands it from version to version."""
    health_listen_fd: int | None
    drain_delay: float
    """After SIGTERM requests are taken until none has come for this long."""
    drain_limit: float
    """But no longer than this."""
    grace: float
    """How long what runs then may last: a run's time-out and a little."""
    max_body: int
    max_runs: int
    max_runs_per_activation: int | None
    max_waiting: int
    wait_timeout: float
    run_timeout: float
    max_background: int
    background_timeout: float
    schedule_timeout: float
    event_timeout: float
    engine_urls: list[str]
    """Of the event engine's servers; none on one's own machine."""
    engine_credentials_file: Path
    engine_trust: Trust | None
    """How the engine is verified; with it pods connect by TLS alone."""
    event_lease: float
    claim: float
    blocked_limit: float
    """How long code may block the event loop; 0 is no limit."""
    blocked_ends: bool
    """Whether the process ends then. Otherwise it warns."""
    log_level: str
    answer_checks: AnswerChecks
    """What happens to answers that do not follow the description of their connector."""
    request_checks: RequestChecks
    """What happens to requests that do not follow it."""
    organisation_id: str
    project_id: str
    project_name: str
    environment_id: str
    environment: str
    version: str
    public_url: str
    egress: Egress | None = None
    """Where requests of connections may go; None (the operator always says) leaves that open, on your own machine."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "Settings":
        """Read the ``TIELINE_*`` variables; raises ConfigurationError naming one that cannot be read."""
        return cls(
            code_dir=Path(env.get("TIELINE_CODE_DIR", "/app/code")),
            packages_dir=_path(env, "TIELINE_PACKAGES_DIR"),
            api_url=env.get("TIELINE_API_URL", "").rstrip("/") or None,
            token_file=Path(env.get("TIELINE_TOKEN_FILE", "/var/run/secrets/tieline/token")),
            api_trust=file_trust(_path(env, "TIELINE_API_CA_FILE")),
            connections_file=_path(env, "TIELINE_CONNECTIONS_FILE"),
            state_file=_path(env, "TIELINE_STATE_FILE"),
            schema_file=_path(env, "TIELINE_VARIABLES_SCHEMA_FILE"),
            termination_log=Path(env.get("TIELINE_TERMINATION_LOG", "/dev/termination-log")),
            host=env.get("TIELINE_HOST") or None,
            port=int(_number(env, "TIELINE_PORT", 8080)),
            health_port=int(_number(env, "TIELINE_HEALTH_PORT", 8081)),
            listen_fd=_descriptor(env, "TIELINE_LISTEN_FD"),
            health_listen_fd=_descriptor(env, "TIELINE_HEALTH_LISTEN_FD"),
            drain_delay=_number(env, "TIELINE_DRAIN_SECONDS", 3),
            drain_limit=_number(env, "TIELINE_DRAIN_LONGEST_SECONDS", 60),
            grace=_number(env, "TIELINE_GRACE_SECONDS", 65),
            max_body=int(_number(env, "TIELINE_MAX_BODY_BYTES", 10 * _MIB)),
            max_runs=int(_number(env, "TIELINE_MAX_CONCURRENT_RUNS", 100)),
            max_runs_per_activation=int(_number(env, "TIELINE_MAX_RUNS_PER_ACTIVATION", 0)) or None,
            max_waiting=int(_number(env, "TIELINE_MAX_WAITING_RUNS", 100)),
            wait_timeout=_number(env, "TIELINE_WAIT_SECONDS", 10),
            run_timeout=_number(env, "TIELINE_RUN_TIMEOUT_SECONDS", 60),
            max_background=int(_number(env, "TIELINE_MAX_BACKGROUND_WORK", 1000)),
            background_timeout=_number(env, "TIELINE_BACKGROUND_TIMEOUT_SECONDS", 300),
            schedule_timeout=_number(env, "TIELINE_SCHEDULE_TIMEOUT_SECONDS", 600),
            event_timeout=_number(env, "TIELINE_EVENT_TIMEOUT_SECONDS", 300),
            engine_urls=[url.strip() for url in env.get("TIELINE_ENGINE_URL", "").split(",") if url.strip()],
            engine_credentials_file=Path(
                env.get("TIELINE_ENGINE_CREDENTIALS_FILE", "/var/run/secrets/tieline-engine/engine.creds")
            ),
            engine_trust=file_trust(_path(env, "TIELINE_ENGINE_CA_FILE")),
            event_lease=_number(env, "TIELINE_EVENT_LEASE_SECONDS", LEASE_SECONDS),
            claim=_claim(env),
            blocked_limit=_number(env, "TIELINE_BLOCKED_SECONDS", 10),
            blocked_ends=_ends_when_blocked(env),
            log_level=_log_level(env),
            answer_checks=_checks(env, "TIELINE_ANSWER_CHECKS", AnswerChecks.LOG),
            request_checks=_checks(env, "TIELINE_REQUEST_CHECKS", RequestChecks.RAISE),
            organisation_id=env.get("TIELINE_ORGANISATION_ID", ""),
            project_id=env.get("TIELINE_PROJECT_ID", ""),
            project_name=env.get("TIELINE_PROJECT_NAME", ""),
            environment_id=env.get("TIELINE_ENVIRONMENT_ID", ""),
            environment=env.get("TIELINE_ENVIRONMENT", ""),
            version=env.get("TIELINE_VERSION", ""),
            public_url=env.get("TIELINE_PUBLIC_URL", ""),
            egress=_egress(env),
        )


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise ConfigurationError(f"{name} must be a number of at least 0, not {text!r}")
    return value


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _claim(env: Mapping[str, str]) -> float:
    seconds = _number(env, "TIELINE_CLAIM_SECONDS", 30)
    if seconds < 1:
        raise ConfigurationError(
            "TIELINE_CLAIM_SECONDS must be at least 1: claims are renewed over the network"
        )
    return seconds


def _ends_when_blocked(env: Mapping[str, str]) -> bool:
    action = env.get("TIELINE_BLOCKED_ACTION") or "exit"
    if action not in {"exit", "warn"}:
        raise ConfigurationError(f"TIELINE_BLOCKED_ACTION must be exit or warn, not {action!r}")
    return action == "exit"


def _descriptor(env: Mapping[str, str], name: str) -> int | None:
    return int(_number(env, name, 0)) if env.get(name) else None


def _egress(env: Mapping[str, str]) -> Egress | None:
    if ALLOWED not in env:
        return None
    try:
        return Egress.from_environment(env)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _checks(env: Mapping[str, str], name: str, default: _Checks) -> _Checks:
    text = env.get(name) or default.value
    try:
        return type(default)(text.lower())
    except ValueError:
        *others, last = type(default)
        choices = f"{', '.join(others)} or {last}"
        raise ConfigurationError(f"{name} must be {choices}, not {text!r}") from None


def _log_level(env: Mapping[str, str]) -> str:
    level = env.get("TIELINE_LOG_LEVEL", "INFO").upper()
    if level not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise ConfigurationError(f"TIELINE_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, not {level!r}")
    return level
