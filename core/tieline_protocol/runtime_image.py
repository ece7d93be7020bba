"""What Tieline's runtime image holds, and what to do for anything else."""

from collections.abc import Iterator, Mapping
from itertools import chain

from tieline_protocol.findings import Finding

PYTHON = (3, 11)
"""The image's Python."""

REQUIREMENTS = "requirements.txt"

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "aiohappyeyeballs": ("aiohappyeyeballs",),
    "aiohttp": ("aiohttp",),
    "aiosignal": ("aiosignal",),
    "attrs": ("attr", "attrs"),
    "cffi": ("_cffi_backend", "cffi"),
    "cronsim": ("cronsim",),
    "cryptography": ("cryptography",),
    "frozenlist": ("frozenlist",),
    "idna": ("idna",),
    "multidict": ("multidict",),
    "nats-py": ("nats",),
    "oauthlib": ("oauthlib",),
    "orjson": ("orjson",),
    "propcache": ("propcache",),
    "pycparser": ("pycparser",),
    "pyjwt": ("jwt",),
    "tieline": ("tieline", "tieline_common", "tieline_protocol"),
    "typing-extensions": ("typing_extensions",),
    "tzdata": ("tzdata",),
    "uvloop": ("uvloop",),
    "yarl": ("yarl",),
}
"""The packages of the image with the modules that they bring."""

MODULES = frozenset(chain.from_iterable(PACKAGES.values()))

_NAMED = ("aiohttp", "cryptography", "oauthlib", "pyjwt", "uvloop", "yarl")
HOLDS = f"Python {PYTHON[0]}.{PYTHON[1]} with {', '.join(_NAMED)} and what they need"
INSTEAD = (
    "for other packages build an image of your own: `FROM python:3.11-slim-bookworm AS packages`, "
    "`COPY requirements.txt .`, `RUN pip install --target /packages -r requirements.txt`, "
    "`FROM <Tieline's runtime image>`, `COPY --from=packages /packages /opt/tieline/lib/python3.11/site-packages`, "
    "and name it in spec.runtime.image"
)
REQUIREMENTS_REFUSED = (
    f"packages are not installed on deploy; remove this file: the runtime image holds {HOLDS}; {INSTEAD}"
)


def requirements(paths: list[str]) -> Iterator[Finding]:
    """An error for each file of required packages: it would be taken for what it does not do."""
    for path in paths:
        if path.rpartition("/")[2] == REQUIREMENTS:
            yield Finding(message=REQUIREMENTS_REFUSED, filename=path)
