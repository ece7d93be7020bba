"""``python -m tieline_packages.unpack``: fetches an environment's packages from the API before its code starts.

It asks no index: the operator names the archive's digest, and what comes has to have it. Standard library only, so that
it starts fast.
"""

import hashlib
import http.client
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tieline_packages.api_connection import api_connection
from tieline_packages.archive import PackagesError, clear, unpack_archive
from tieline_protocol.packages import MAX_ARCHIVE_BYTES

_CHUNK = 1 << 20
_REQUEST_SECONDS = 30.0
_TOTAL_SECONDS = 240.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_TEMPORARY = (429, 502, 503, 504)


class _TemporaryError(Exception):
    """The archive could not be fetched now."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the archive is."""

    api_url: str
    token_file: Path
    key: str
    digest: str

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "Source":
        """By the variables that the operator sets. Raises KeyError."""
        return cls(
            api_url=env["TIELINE_API_URL"].rstrip("/"),
            token_file=Path(env["TIELINE_TOKEN_FILE"]),
            key=env["TIELINE_PACKAGES_KEY"],
            digest=env["TIELINE_PACKAGES_DIGEST"],
        )


def main() -> None:
    """Fetches and unpacks; exits with 1 and a line that says why not."""
    folder = Path(os.environ["TIELINE_PACKAGES_DIR"])
    source = Source.from_environment(os.environ)
    try:
        fetch_and_unpack(source, folder, until=time.monotonic() + _TOTAL_SECONDS)
    except (PackagesError, OSError) as error:
        print(str(error), file=sys.stderr)
        sys.exit(1)


def fetch_and_unpack(source: Source, folder: Path, *, until: float) -> None:
    """Has the packages in ``folder``, which exists; tries again until the time ``until`` of the monotonic clock.

    Raises PackagesError and OSError.
    """
    archive = folder / ".archive"
    pause = _FIRST_PAUSE
    while True:
        clear(folder)
        try:
            _fetch(source, archive)
            break
        except _TemporaryError as error:
            if time.monotonic() + pause > until:
                raise PackagesError(str(error)) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    with archive.open("rb") as opened:
        archive.unlink()  # a package may have a file of its name
        unpack_archive(opened, folder)


def _fetch(source: Source, archive: Path) -> None:
    parts = urlsplit(source.api_url)
    connection = api_connection(parts, os.environ, timeout=_REQUEST_SECONDS)
    path = f"{parts.path}/internal/v1/environment/packages/{source.key}?digest={source.digest}"
    try:
        token = source.token_file.read_text(encoding="utf-8").strip()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            _refused(answer)
        digest = _save(answer, archive)
    except (OSError, http.client.HTTPException) as error:
        raise _TemporaryError(f"the API cannot be reached: {type(error).__name__}") from error
    finally:
        connection.close()
    if digest != source.digest:
        raise _TemporaryError("what the API sent is not the archive that was installed")


def _refused(answer: http.client.HTTPResponse) -> None:
    text = answer.read(2048).decode("utf-8", "replace")
    message = f"the API answers {answer.status}: {text}"
    # A token is new, or packages are being installed again: what is not there now may come.
    raise (
        _TemporaryError(message) if answer.status in (401, 403, 404, *_TEMPORARY) else PackagesError(message)
    )


def _save(answer: http.client.HTTPResponse, archive: Path) -> str:
    found, size = hashlib.sha256(), 0
    with archive.open("wb") as file:
        while chunk := answer.read(_CHUNK):
            size += len(chunk)
            if size > MAX_ARCHIVE_BYTES:
                raise PackagesError("the archive is larger than any that can be stored")
            found.update(chunk)
            file.write(chunk)
    return found.hexdigest()


if __name__ == "__main__":
    main()
