"""The packages of a lock on one's own machine: the same that pods have, kept by the lock they are of.

uv installs them. It knows the index by its own settings, not by those of the platform.
"""

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tieline_packages.archive import PackagesError, python_tag
from tieline_protocol.package_lock import PackageLock, parse_lock
from tieline_protocol.packages import MANIFEST
from tieline_protocol.runtime_image import OLDEST_PYTHON, REQUIREMENTS

SOURCE = "requirements.in"
"""The file in which people list the packages that they want; ``tieline lock`` makes the lock of it."""
CONSTRAINTS = "runtime_constraints.txt"
"""The file of ``tieline_protocol`` with the versions of the runtime image."""
HEADER = f"# Written by `tieline lock` from {SOURCE}.\n"
_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
_SECONDS = 600
_MAX_MESSAGE = 1500
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def installed_folder(code: Path) -> Path | None:
    """The folder with the packages of the lock in ``code``; None where it needs none. Installs them if necessary.

    Raises PackagesError where they cannot be installed, or the file is no lock.
    """
    lock = _lock_of(code)
    if lock is None:
        return None
    folder = cache_folder() / f"{lock.digest[:32]}-{python_tag()}-{sys.platform}-{platform.machine()}"
    if not (folder / MANIFEST).is_file():
        _install(lock, folder)
    return folder


def has_lock(code: Path) -> bool:
    """Whether the code needs packages. Raises PackagesError where the file is no lock."""
    return _lock_of(code) is not None


def modules_in(folder: Path) -> frozenset[str]:
    """The top-level modules that packages in a folder bring."""
    names = (path.name for path in folder.iterdir() if not path.name.endswith((".dist-info", ".libs")))
    return frozenset(name.partition(".")[0] for name in names if name.partition(".")[0].isidentifier())


def write_lock(
    code: Path, *, upgrade: bool = False, upgraded: Sequence[str] = (), check: bool = False
) -> tuple[PackageLock, bool]:
    """Writes the lock of ``requirements.in``; returns it, and whether it is another one than before.

    Versions stay as they are in the file, unless ``upgrade``, or the package is in ``upgraded``. With ``check`` nothing
    is written. Raises PackagesError.
    """
    source, target = code / SOURCE, code / REQUIREMENTS
    if not source.is_file():
        raise PackagesError(f"there is no {source}: list the packages that the code needs in it, one a line")
    with tempfile.TemporaryDirectory() as work:
        output = Path(work, REQUIREMENTS)
        if target.is_file():
            shutil.copyfile(target, output)
        _uv(_compile_options(source, output, upgrade=upgrade, upgraded=upgraded), folder=code)
        text = HEADER + output.read_text(encoding="utf-8")
    found = parse_lock(text.encode())
    if not isinstance(found, PackageLock):
        raise PackagesError(f"what uv has locked cannot be deployed: {found[0]}")
    before = parse_lock(target.read_bytes()) if target.is_file() else None
    changed = not isinstance(before, PackageLock) or before.digest != found.digest
    if changed and not check:
        target.write_text(text, encoding="utf-8")
    return found, changed


def cache_folder() -> Path:
    """Where packages are kept on this machine."""
    if own := os.environ.get("TIELINE_CACHE_FOLDER"):
        return Path(own, "packages")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tieline", "packages")


def _lock_of(code: Path) -> PackageLock | None:
    path = code / REQUIREMENTS
    if not path.is_file():
        return None
    found = parse_lock(path.read_bytes())
    if not isinstance(found, PackageLock):
        raise PackagesError(str(found[0]))
    return found if found.packages else None


def _install(lock: PackageLock, folder: Path) -> None:
    """Installs beside the folder and renames, so that what is there is complete, whoever else does the same."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        requirements, target = work / REQUIREMENTS, work / "packages"
        requirements.write_text(lock.text, encoding="utf-8")
        options = ["--require-hashes", f"--target={target}", f"--python={sys.executable}"]
        _uv(["pip", "install", *options, f"--requirement={requirements}"])
        target.mkdir(exist_ok=True)
        (target / MANIFEST).write_text(json.dumps({"python": python_tag(), "lock": lock.digest}))
        with contextlib.suppress(OSError):  # somebody else was faster
            target.rename(folder)
        if not (folder / MANIFEST).is_file():
            raise PackagesError(f"the packages cannot be kept in {folder}: remove what is there")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _compile_options(source: Path, output: Path, *, upgrade: bool, upgraded: Iterable[str]) -> list[str]:
    import tieline_protocol  # noqa: PLC0415  (where its files are)

    constraints = Path(tieline_protocol.__file__).with_name(CONSTRAINTS)
    return [
        "pip",
        "compile",
        "--universal",
        "--generate-hashes",
        "--no-header",
        "--no-emit-index-url",
        f"--python-version={OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}",
        f"--constraint={constraints}",
        f"--output-file={output}",
        *(["--upgrade"] if upgrade else []),
        *(f"--upgrade-package={name}" for name in upgraded),
        "--",
        source.name,
    ]


def _uv(arguments: Sequence[str], *, folder: Path | None = None) -> None:
    command = [_uv_program(), *arguments[:2], "--quiet", "--only-binary=:all:", *arguments[2:]]
    try:
        done = subprocess.run(  # noqa: S603  (uv)
            command,
            cwd=folder,
            env=_environment(os.environ),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PackagesError(f"uv has not finished within {_SECONDS // 60} minutes") from None
    if done.returncode:
        lines = _COLOURS.sub("", _CREDENTIALS.sub("***@", done.stderr)).split("\n")
        text = " ".join(line.strip(" ×╰─▶│├") for line in lines if line.strip())
        raise PackagesError(text[:_MAX_MESSAGE] or "uv failed without a message")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """uv's own settings; where there are none for the index and certificates, pip's variables and the system's."""
    own = {**env, "UV_NATIVE_TLS": env.get("UV_NATIVE_TLS", "1")}
    bundle = next((env[name] for name in _BUNDLES if env.get(name)), None)
    if bundle:
        own["SSL_CERT_FILE"] = bundle
    if "UV_DEFAULT_INDEX" not in own and (index := env.get("PIP_INDEX_URL")):
        own["UV_DEFAULT_INDEX"] = index
    return own


def _uv_program() -> str:
    try:
        from uv import find_uv_bin  # noqa: PLC0415  (not in pods)
    except ImportError:
        raise PackagesError("uv is not installed: install tieline[cli], or uv itself") from None
    return str(find_uv_bin())
