"""What Tieline's runtime image holds, and what to do for anything else."""

from collections.abc import Iterator, Mapping
from itertools import chain

from tieline_protocol.findings import Finding

PYTHON = (3, 13)
"""The image's Python."""
OLDEST_PYTHON = (3, 11)
"""The oldest that integrations run on outside the image; a lock holds for all from this one on."""

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
    "jsonschema-rs": ("jsonschema_rs",),
    "multidict": ("multidict",),
    "nats-py": ("nats",),
    "oauthlib": ("oauthlib",),
    "orjson": ("orjson",),
    "propcache": ("propcache",),
    "pycparser": ("pycparser",),
    "pyjwt": ("jwt",),
    "tieline": ("tieline", "tieline_common", "tieline_engine", "tieline_packages", "tieline_protocol"),
    "typing-extensions": ("typing_extensions",),
    "tzdata": ("tzdata",),
    "uvloop": ("uvloop",),
    "yarl": ("yarl",),
}
"""The packages of the image with the modules that they bring."""

MODULES = frozenset(chain.from_iterable(PACKAGES.values()))

_NAMED = ("aiohttp", "cryptography", "jsonschema-rs", "oauthlib", "pyjwt", "uvloop", "yarl")
HOLDS = f"Python {PYTHON[0]}.{PYTHON[1]} with {', '.join(_NAMED)} and what they need"
INSTEAD = "for other packages write requirements.in and run `tieline lock`; a deploy installs those of requirements.txt"
REQUIREMENTS_MISPLACED = (
    "packages are installed from the requirements.txt beside main.py alone; move its packages there, or rename this "
    "file"
)


def misplaced_requirements(paths: list[str]) -> Iterator[Finding]:
    """An error for each file of required packages in a folder: it would be taken for what it does not do."""
    for path in paths:
        if path != REQUIREMENTS and path.rpartition("/")[2] == REQUIREMENTS:
            yield Finding(message=REQUIREMENTS_MISPLACED, filename=path)
