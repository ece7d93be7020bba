"""``python -m tieline_packages.install``: installs a lock's packages and stores them; the operator's Job runs it.

No code of the packages runs: only wheels are installed, each with a hash that the lock allows. The last line of a
failure becomes the environment's message.
"""

import base64
import hashlib
import http.client
import json
import os
import platform
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tieline_packages.api_connection import api_connection
from tieline_packages.archive import PackagesError, python_tag, write_archive
from tieline_protocol.findings import first
from tieline_protocol.package_lock import PackageLock, parse_lock
from tieline_protocol.packages import MAX_ARCHIVE_BYTES

FINAL = 3
"""The exit code of a failure that another try does not end."""
_PIP_SECONDS = 600
_COMPILE_SECONDS = 300
_UPLOAD_SECONDS = 300
_MAX_MESSAGE = 1000
_PIP_FOLDER = "/opt/installer"
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<name>[A-Za-z0-9._-]+?)(?:\[|==|\s|$)")
_INCOMPLETE = "In --require-hashes mode"
_REPLACED = "DO NOT MATCH THE HASHES"
_FINAL_MARKS = (
    "ResolutionImpossible",
    "Invalid requirement",
    "invalid wheel",
    " is invalid.",
    "outside the target directory",
    "Unknown scheme key",
    "File name too long",
)
_WORK_FOLDERS = re.compile(r"/[^\s']*/pip-[a-z]+-\w+/(?:lib/python/?)?")
"""Folders of pip, which have another name in each try: messages stay the same."""
_BROKEN = "connection broken"
_TOKEN_USER = "__token__"  # noqa: S105  (a user)
"""The user that indexes know a token by."""
_PYPI = "https://pypi.org/simple"
_ASK_SECONDS = 20
_PUBLIC_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Those of the runtime image."""


class FinalError(PackagesError):
    """Another try ends the same."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """Where packages come from."""

    url: str
    credentials: Path | None = None
    """A folder with ``username``, ``password`` and ``ca.crt``, each of which may be missing."""
    authorities: str = ""
    """Certificate authorities in PEM that are trusted beside the public ones and ``ca.crt``."""

    @property
    def secrets(self) -> Sequence[str]:
        """Values that no message may have."""
        return [value for name in ("username", "password") if (value := self._read(name))]

    def trusted(self) -> ssl.SSLContext:
        """The public authorities and the index's own. Raises PackagesError where those are none."""
        context = ssl.create_default_context()
        # Companies' own authorities often lack what RFC 5280 wants of them since Python 3.13.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        for where, text in self._own_authorities().items():
            try:
                context.load_verify_locations(cadata=text)
            except (ssl.SSLError, ValueError):
                raise PackagesError(
                    f"{where} has no certificates in PEM (-----BEGIN CERTIFICATE-----)"
                ) from None
        return context

    def bundle(self, folder: Path) -> Path | None:
        """A file with the same for pip, written into a folder; None where the index has no authority of its own."""
        own = self._own_authorities()
        if not own:
            return None
        self.trusted()
        public = _PUBLIC_AUTHORITIES.read_text(encoding="utf-8") if _PUBLIC_AUTHORITIES.is_file() else ""
        path = folder / "authorities.pem"
        path.write_text("\n".join([public, *own.values(), ""]), encoding="utf-8")
        return path

    def _own_authorities(self) -> dict[str, str]:
        """Where they are from, and what they are."""
        found = {
            "the setting TIELINE_PACKAGES_CA": self.authorities.strip(),
            "the key ca.crt of the package index's Secret": self._read("ca.crt"),
        }
        return {where: text for where, text in found.items() if text}

    def netrc(self) -> str:
        """The credentials as a file of netrc; empty where there are none."""
        user, password = self._read("username"), self._read("password")
        if not password:
            return ""
        host = urlsplit(self.url).hostname or ""
        return f"machine {host} login {_quoted(user or _TOKEN_USER)} password {_quoted(password)}\n"

    def without(self, package: str) -> PackagesError:
        """Why the index gave no file of a package: pip does not tell an index that refuses from one without it."""
        url = f"{(self.url or _PYPI).rstrip('/')}/{package}/"
        request = urllib.request.Request(url)  # noqa: S310  (http or https, by the platform's settings)
        user, password = self._read("username"), self._read("password")
        if password:
            credentials = base64.b64encode(f"{user or _TOKEN_USER}:{password}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {credentials}")
        try:
            with urllib.request.urlopen(request, timeout=_ASK_SECONDS, context=self.trusted()):  # noqa: S310
                pass
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                return PackagesError(f"the package index refuses the platform's credentials ({error.code})")
            if error.code == 404:
                return FinalError(f"the package index has no {package}")
            return PackagesError(f"the package index cannot be reached: it answers {error.code}")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ssl.SSLCertVerificationError):
                return PackagesError(
                    f"the certificate of the package index is not trusted ({reason.verify_message}): set its authority "
                    "in TIELINE_PACKAGES_CA, or in the key ca.crt of the index's Secret"
                )
            return PackagesError(f"the package index cannot be reached: {reason}")
        return FinalError(
            f"the package index has no wheel of {package} in the locked version for {python_tag()} on "
            f"{platform.machine()}: packages are not built from source"
        )

    def _read(self, name: str) -> str:
        path = self.credentials / name if self.credentials else None
        try:
            return path.read_text(encoding="utf-8").strip() if path is not None and path.is_file() else ""
        except UnicodeDecodeError:
            raise PackagesError(f"the key {name} of the package index's Secret is no text (UTF-8)") from None


def main() -> None:
    """Installs and stores; exits with 1, or with 3 where another try is of no use."""
    env = os.environ
    folder = env.get("TIELINE_INDEX_SECRET_DIR")
    index = Index(
        url=env.get("TIELINE_INDEX_URL", ""),
        credentials=Path(folder) if folder else None,
        authorities=env.get("TIELINE_INDEX_CA", ""),
    )
    secrets: Sequence[str] = ()
    try:
        secrets = index.secrets
        with tempfile.TemporaryDirectory() as work:
            archive = install(read_lock(Path(env["TIELINE_LOCK_FILE"])), index, Path(work))
            _store(env, archive)
    except (PackagesError, OSError) as error:
        message = masked(str(error), secrets)[:_MAX_MESSAGE]
        print(message, file=sys.stderr)
        _tell(Path(env.get("TIELINE_TERMINATION_LOG", "/dev/termination-log")), message)
        sys.exit(FINAL if isinstance(error, FinalError) else 1)


def read_lock(path: Path) -> PackageLock:
    """The lock in a file. Raises FinalError for one that a deploy would refuse."""
    found = parse_lock(path.read_bytes())
    if isinstance(found, PackageLock):
        return found
    raise FinalError(first([str(one) for one in found], most=3))


def install(lock: PackageLock, index: Index, work: Path, *, pip: Sequence[str] | None = None) -> Path:
    """Installs the packages, and returns the archive with them, in ``work``. Raises PackagesError."""
    target, archive = work / "packages", work / "packages.zip"
    target.mkdir()
    requirements = work / "requirements.txt"
    requirements.write_text(lock.text, encoding="utf-8")
    bundle = index.bundle(work)
    options = _pip_options(index, bundle, target, requirements)
    _pip(lock, index, work, [*(pip or _default_pip()), "install", *options], bundle=bundle)
    _compile(target)
    try:
        write_archive(target, archive, {"python": python_tag(), "lock": lock.digest})
    except PackagesError as error:
        raise FinalError(str(error)) from None
    return archive


def masked(text: str, secrets: Sequence[str]) -> str:
    """The text without credentials.

    >>> masked("no route to https://me:secret@pypi.example/simple for secret", ["secret"])
    'no route to https://***@pypi.example/simple for ***'
    """
    text = _CREDENTIALS.sub("***@", text)
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _quoted(word: str) -> str:
    """A word of netrc, which may have spaces in it."""
    return '"' + word.replace("\\", r"\\").replace('"', r"\"") + '"'


def _default_pip() -> Sequence[str]:
    return [sys.executable, "-m", "pip"]


def _pip_options(index: Index, bundle: Path | None, target: Path, requirements: Path) -> list[str]:
    return [
        "--require-hashes",
        "--only-binary=:all:",
        "--no-compile",
        "--no-cache-dir",
        "--no-input",
        "--no-warn-conflicts",
        "--disable-pip-version-check",
        "--quiet",
        "--retries=2",
        "--timeout=20",
        f"--target={target}",
        *([f"--index-url={index.url}"] if index.url else []),
        *([f"--trusted-host={urlsplit(index.url).hostname}"] if index.url.startswith("http://") else []),
        *([f"--cert={bundle}"] if bundle else []),
        f"--requirement={requirements}",
    ]


def _pip(lock: PackageLock, index: Index, work: Path, command: Sequence[str], *, bundle: Path | None) -> None:
    netrc = work / "netrc"
    netrc.write_text(index.netrc(), encoding="utf-8")
    netrc.chmod(0o600)
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIELINE_"))
    } | {"NETRC": str(netrc), "PYTHONPATH": _PIP_FOLDER, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(work)}
    if bundle:
        # One that the image names would count for more than --cert.
        env["REQUESTS_CA_BUNDLE"] = str(bundle)
    try:
        done = subprocess.run(  # noqa: S603  (our own command)
            command, env=env, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PackagesError(
            f"{_count(lock)} could not be installed within {_PIP_SECONDS // 60} minutes: the index is slow, or away"
        ) from None
    if done.returncode:
        raise _failure(done.stderr, index)


def _failure(output: str, index: Index) -> PackagesError:
    """What pip's output means, in a sentence."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    if _REPLACED in output:
        return FinalError(
            "a file of the index has none of the hashes in requirements.txt: it was replaced, or the index is another "
            "one than that of the lock"
        )
    if _INCOMPLETE in output:
        missing = [line.split(" ")[0] for line in lines if " (from " in line]
        return FinalError(
            f"requirements.txt does not have {', '.join(missing) or 'all packages'}, which other packages of it need: "
            "run `tieline lock` again"
        )
    if found := _NOT_FOUND.search(output):
        return index.without(found["name"])
    detail = "; ".join(errors[:3] or lines[-1:]) or "pip failed without a message"
    detail = _WORK_FOLDERS.sub("", detail)
    if _BROKEN in output:
        return PackagesError(f"the package index cannot be reached: {detail}")
    kind = FinalError if any(mark in output for mark in _FINAL_MARKS) else PackagesError
    return kind(detail)


def _compile(target: Path) -> None:
    """Compiles all modules, by content and not by time: a pod's folder is read-only, and imports would compile anew."""
    command = [sys.executable, "-m", "compileall", "-q", "-f", "-j", "0"]
    command += [
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(target),
        "-p",
        "/app/packages",
        str(target),
    ]
    try:
        # Some packages have files that are no Python of this version, on purpose.
        subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise PackagesError("the packages could not be compiled in time") from None


def _store(env: Mapping[str, str], archive: Path) -> None:
    size = archive.stat().st_size
    if size > MAX_ARCHIVE_BYTES:
        raise FinalError(
            f"the packages take {size >> 20} MiB, at most {MAX_ARCHIVE_BYTES >> 20} are allowed: use fewer or smaller "
            "ones, or an image of your own"
        )
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    parts = urlsplit(env["TIELINE_API_URL"].rstrip("/"))
    connection = api_connection(parts, env, timeout=_UPLOAD_SECONDS)
    path = f"{parts.path}/internal/v1/environment/packages/{env['TIELINE_PACKAGES_KEY']}?digest={digest}"
    token = Path(env["TIELINE_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/zip",
        "Content-Length": str(size),
    }
    try:
        with archive.open("rb") as file:
            connection.request("PUT", path, body=file, headers=headers)
            answer = connection.getresponse()
            text = answer.read(4096)
    except (OSError, http.client.HTTPException) as error:
        raise PackagesError(f"the packages cannot be stored: {type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise PackagesError(f"the packages cannot be stored: {_message(text)} ({answer.status})")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "the API refuses them"


def _count(lock: PackageLock) -> str:
    number = len(lock.packages)
    return "1 package" if number == 1 else f"{number} packages"


def _tell(path: Path, message: str) -> None:
    try:
        path.write_text(message, encoding="utf-8")
    except OSError:
        return


if __name__ == "__main__":
    main()
