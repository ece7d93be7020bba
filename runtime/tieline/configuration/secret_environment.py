"""Environment variables and files that are secrets: the platform takes them from Secrets, and ``tieline run`` is given
them."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from urllib.parse import unquote

from tieline.telemetry.redaction import Redactor
from tieline.telemetry.secret_forms import SHORTEST

NAMES = "TIELINE_SECRET_ENV"
"""The variable that names them, separated by commas."""
PATHS = "TIELINE_SECRET_PATHS"
"""The variable with the files and folders that Secrets are mounted at, separated by colons."""
_MAX_FILES = 512
_MAX_FILE_BYTES = 1 << 20
"""A Secret holds no more."""
_NAMED = re.compile(
    r"""(?:password|passwd|pwd|secret|token|key|sig)\s*=\s*(?:'([^']*)'|"([^"]*)"|([^&;\s'"][^&;\s]*))""",
    re.IGNORECASE,
)
"""Passwords and keys in a connection string, or in the query of a URL: ``host=db password=…``, ``AccountKey=…;``."""
_SHORTEST_NAMED = 6
"""Shorter ones may be ordinary words, such as ``true``."""
logger = logging.getLogger("tieline.configuration")


def learn_environment(redactor: Redactor, environment: Mapping[str, str]) -> None:
    """Have ``redactor`` know the values of the secret variables, and warn of those that are too short to be masked."""
    names = [name.strip() for name in environment.get(NAMES, "").split(",")]
    values = {name: environment[name] for name in names if name in environment}
    # A variable that counts as no secret by its name, such as DATABASE, may hold a URL with a password.
    others = (value for name, value in environment.items() if name not in values)
    known = chain(map(secrets_in, values.values()), map(passwords_in, others))
    redactor.replace("environment", chain.from_iterable(known))
    if short := [name for name, value in values.items() if 0 < len(value.strip()) < SHORTEST]:
        logger.warning(
            "Values of fewer than %d characters are not masked in logs and traces: %s",
            SHORTEST,
            ", ".join(short),
        )


def learn_files(redactor: Redactor, environment: Mapping[str, str]) -> None:
    """Have ``redactor`` know what is in the mounted Secrets."""
    paths = [Path(path) for path in environment.get(PATHS, "").split(":") if path]
    files = islice(chain.from_iterable(map(_files, paths)), _MAX_FILES)
    redactor.replace("files", chain.from_iterable(map(_secrets_of, files)))


def _files(path: Path) -> Iterator[Path]:
    """The files of a mounted volume. kubelet keeps them in hidden folders, and links to them."""
    if path.is_file():
        yield path
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(".."))
        yield from (Path(folder, name) for name in sorted(names))


def _secrets_of(file: Path) -> Iterator[str | bytes]:
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            return
        value = file.read_bytes().strip()
    except OSError:
        return
    try:
        yield from secrets_in(value.decode())
    except UnicodeDecodeError:
        yield value


def secrets_in(value: str) -> Iterator[str]:
    """The value, and the passwords in it: drivers write them by themselves."""
    yield value
    yield from passwords_in(value)


def passwords_in(value: str) -> Iterator[str]:
    """The passwords in a URL or a connection string."""
    authority = value.partition("://")[2].partition("/")[0]
    if password := authority.rpartition("@")[0].partition(":")[2]:
        yield password
        yield unquote(password)
    for found in _NAMED.finditer(value):
        part = found[found.lastindex or 0]
        if len(part) >= _SHORTEST_NAMED:
            yield part
            yield unquote(part)
