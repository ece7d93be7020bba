"""Settings of operator and API, from environment variables that are checked at the start."""

import os
from collections.abc import Mapping
from math import nan
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from tieline_core.tls import TlsMode
from tieline_protocol.egress import PUBLIC_ONLY, Egress

_PREFIX = "TIELINE_"


class SettingsError(Exception):
    """Variables are missing or not usable; the message names all of them and what they may be."""


def number(low: float, high: float, kind: type[float] = float) -> BeforeValidator:
    """Reads a number from ``low`` to ``high``; ``kind`` int cuts off what follows the point."""

    def read(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not low <= value <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {text!r}")
        return kind(value)

    return BeforeValidator(read)


def listed(text: Any) -> Any:
    """The items of a text that commas separate."""
    return tuple(item.strip() for item in text.split(",") if item.strip()) if isinstance(text, str) else text


def _level(text: str) -> str:
    if text.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError(f"must be DEBUG, INFO, WARNING or ERROR, not {text!r}")
    return text.upper()


Port = Annotated[int, number(1, 65535, int)]
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]


class EnvironmentSettings(BaseSettings):
    """The field ``log_level`` comes from ``TIELINE_LOG_LEVEL``; an empty variable counts as not set.

    Settings made in code do not read the environment.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, enable_decoding=False, validate_default=False, frozen=True
    )

    listen_port: Port = 8080
    internal_port: Port = 8081
    internal_tls_port: Port = 8443
    tls: TlsMode = TlsMode.DISABLED
    activator_port: Port = 8082
    metrics_port: Port = 9090
    log_level: Annotated[str, BeforeValidator(_level)] = "INFO"
    egress: Egress = PUBLIC_ONLY

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Reads and checks the variables; raises SettingsError that names everything wrong at once."""
        present = {name: text.strip() for name, text in environment.items() if text.strip()}
        variables = EnvSettingsSource(cls)
        variables.env_vars = {
            name.lower(): text for name, text in present.items() if name.startswith(_PREFIX)
        }
        problems: list[str] = []
        composed = cls.composed(present, problems)
        try:
            settings = cls(**variables() | composed)
        except ValidationError as error:
            problems[:0] = [_problem(one) for one in error.errors()]
        if problems:
            raise SettingsError("; ".join(problems))
        return settings

    @classmethod
    def composed(cls, environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
        """The fields that come from several variables; what is wrong with those goes into ``problems``."""
        try:
            return {"egress": Egress.from_environment(environment)}
        except ValueError as error:
            problems.append(str(error))
            return {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def _problem(error: ErrorDetails) -> str:
    name = "".join(str(part) for part in error["loc"][:1]).upper()
    name = name if not name or name.startswith(_PREFIX) else _PREFIX + name
    match error["type"]:
        case "missing":
            return f"{name} is not set"
        case "bool_parsing":
            return f"{name} must be true or false, not {error['input']!r}"
        case "enum":
            expected = error["ctx"]["expected"].replace("'", "")
            return f"{name} must be {expected}, not {error['input']!r}"
    return f"{name} {error['msg'].removeprefix('Value error, ')}".strip()
