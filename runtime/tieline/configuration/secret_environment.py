"""Environment variables that are secrets: the platform takes them from Secrets, and ``tieline run`` is told them."""

import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from urllib.parse import unquote

from tieline.telemetry.redaction import SHORTEST, Redactor

NAMES = "TIELINE_SECRET_ENV"
"""The variable that names them, separated by commas."""
logger = logging.getLogger("tieline.configuration")


def learn_environment(redactor: Redactor, environment: Mapping[str, str]) -> None:
    """Have ``redactor`` know the values of the secret variables, and warn of those that are too short to be masked."""
    names = [name.strip() for name in environment.get(NAMES, "").split(",")]
    values = {name: environment[name] for name in names if name in environment}
    redactor.replace("environment", chain.from_iterable(map(_secrets, values.values())))
    if short := [name for name, value in values.items() if 0 < len(value.strip()) < SHORTEST]:
        logger.warning(
            "Values of fewer than %d characters are not masked in logs and traces: %s",
            SHORTEST,
            ", ".join(short),
        )


def _secrets(value: str) -> Iterator[str]:
    """The value, and the password of a URL: drivers write it by itself."""
    yield value
    authority = value.partition("://")[2].partition("/")[0]
    if password := authority.rpartition("@")[0].partition(":")[2]:
        yield password
        yield unquote(password)
