"""What operator, API and pods agree on about the packages of a project's lock."""

import hashlib
import platform

from tieline_protocol.runtime_image import PYTHON

MAX_ARCHIVE_BYTES = 256 << 20
"""The packages of one lock as they are stored."""
MAX_UNPACKED_BYTES = 1 << 30
"""The same in a pod."""
CHUNK_BYTES = 1 << 20
FOLDER = "/app/packages"
"""Where a pod finds them."""
MANIFEST = "tieline-packages.json"
"""The file in the archive that says what it was installed for."""
_FORMAT = 1
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def package_key(lock: str, *, architecture: str) -> str:
    """What the packages of a lock are stored under: the same for the same lock, Python and architecture.

    ``lock`` is the digest of the lock, ``architecture`` as Kubernetes names it. In hexadecimal.
    """
    text = f"{_FORMAT}/{lock}/cp{PYTHON[0]}{PYTHON[1]}/{architecture}"
    return hashlib.sha256(text.encode()).hexdigest()


def installer_job(environment: str, key: str) -> str:
    """The name of the Job that installs packages for an environment (its id)."""
    digest = hashlib.sha256(f"{environment}/{key}".encode()).hexdigest()[:24]
    return f"tieline-packages-{digest}"


def own_architecture() -> str:
    """This machine's architecture, as Kubernetes names it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)
