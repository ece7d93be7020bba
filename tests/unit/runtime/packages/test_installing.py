"""Installing a lock with the real pip from an index of the test's own, and unpacking what comes of it."""

from __future__ import annotations

import hashlib
import netrc
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.identity.certificate_authority import Authority
from tests.unit.runtime.packages.local_index import (
    PASSWORD,
    LocalIndex,
    local_index,
    source_distribution,
    wheel,
)
from tieline_packages.activation import activate
from tieline_packages.archive import PackagesError, unpack_archive, write_archive
from tieline_packages.install import FinalError, Index, install, main, masked
from tieline_protocol.package_lock import PackageLock


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    folder = tmp_path / "index-secret"
    folder.mkdir()
    (folder / "username").write_text("reader")
    (folder / "password").write_text(PASSWORD)
    return folder


def installed(lock: PackageLock, url: str, credentials: Path | None, work: Path) -> Path:
    work.mkdir()
    return install(lock, Index(url=url, credentials=credentials), work)


def test_what_is_installed_can_be_unpacked_and_imported(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", requires="words"), wheel("words"))
    archive = installed(index.lock("greetings", "words"), index.url, credentials, tmp_path / "work")
    folder = tmp_path / "pod"
    folder.mkdir()
    unpack_archive(archive, folder)
    program = (
        "import sys; from pathlib import Path; from tieline_packages.activation import activate; "
        "activate(Path(sys.argv[1])); import greetings, words; print(greetings.VALUE, greetings.__cached__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    ).stdout.split()
    assert said[0] == "1.0"
    assert Path(said[1]).is_file(), "it is compiled already"


def test_the_same_lock_gives_the_same_archive(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(wheel("greetings"), wheel("words"))
    lock = index.lock("greetings", "words")
    digests = {
        hashlib.sha256(installed(lock, index.url, credentials, tmp_path / name).read_bytes()).hexdigest()
        for name in ("one", "two")
    }
    assert len(digests) == 1


def test_a_file_that_was_replaced_is_refused(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(wheel("greetings"))
    lock = index.lock("greetings")
    index.add(wheel("greetings", **{"greetings.py": "import os\n"}))
    with pytest.raises(FinalError, match="has none of the hashes"):
        installed(lock, index.url, credentials, tmp_path / "work")


def test_a_source_distribution_is_not_built(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(source_distribution("greetings"))
    with pytest.raises(FinalError, match="no wheel of greetings"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_a_lock_that_leaves_out_a_dependency_is_refused_with_its_name(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", requires="words"), wheel("words"))
    with pytest.raises(FinalError, match="words"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_an_index_that_is_away_is_told_as_that_and_tried_again(tmp_path: Path) -> None:
    index = LocalIndex()
    index.add(wheel("greetings"))
    lock = index.lock("greetings")
    with pytest.raises(PackagesError, match="the package index cannot be reached") as told:
        installed(lock, "http://127.0.0.1:9/simple", None, tmp_path / "work")
    assert not isinstance(told.value, FinalError)


def test_wrong_credentials_are_told_and_not_shown(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings"))
    (credentials / "password").write_text("a-wrong-password")
    with pytest.raises(PackagesError) as told:
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    assert "credentials" in str(told.value)
    assert "a-wrong-password" not in str(told.value)
    assert not isinstance(told.value, FinalError)


@pytest.fixture
def private() -> Iterator[tuple[LocalIndex, str]]:
    """An index whose certificate is of an authority of its own, and that authority."""
    authority = Authority()
    with local_index(authority) as served:
        served.add(wheel("greetings"))
        yield served, authority.ca


@pytest.mark.parametrize("given", ["by the platform", "by the Secret"])
def test_an_index_of_an_authority_of_its_own_is_trusted(
    private: tuple[LocalIndex, str], credentials: Path, tmp_path: Path, given: str
) -> None:
    index, ca = private
    if given == "by the Secret":
        (credentials / "ca.crt").write_text(ca)
    asked = Index(
        url=index.url, credentials=credentials, authorities=ca if given == "by the platform" else ""
    )
    work = tmp_path / "work"
    work.mkdir()
    assert install(index.lock("greetings"), asked, work).is_file()
    # An index may send its files from a public host.
    assert (bundle := asked.bundle(work)) is not None
    public = Path("/etc/ssl/certs/ca-certificates.crt").read_text()
    assert public.count("BEGIN CERTIFICATE") + 1 == bundle.read_text().count("BEGIN CERTIFICATE")
    # The second request of a failure trusts the same.
    with pytest.raises(FinalError, match="has no words"):
        raise asked.without("words")


def test_an_index_of_an_unknown_authority_is_told_as_that(
    private: tuple[LocalIndex, str], credentials: Path, tmp_path: Path
) -> None:
    index, _ = private
    with pytest.raises(PackagesError, match="is not trusted") as told:
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    assert "TIELINE_PACKAGES_CA" in str(told.value)
    assert not isinstance(told.value, FinalError)


def test_an_authority_that_is_no_certificate_is_named(
    private: tuple[LocalIndex, str], credentials: Path, tmp_path: Path
) -> None:
    index, _ = private
    (credentials / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
    with pytest.raises(PackagesError, match=r"the key ca\.crt of the package index's Secret"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_nothing_of_the_credentials_is_in_the_archive(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings"))
    archive = installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    with zipfile.ZipFile(archive) as opened:
        contents = b"".join(opened.read(name) for name in opened.namelist())
    assert PASSWORD.encode() not in contents
    assert index.url.encode() not in contents


def test_a_wheel_cannot_write_outside_its_folder(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", **{"../../../escaped.py": "x = 1\n"}))
    with pytest.raises(PackagesError):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    assert not list(tmp_path.rglob("escaped.py"))


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive, folder = tmp_path / "packages.zip", tmp_path / "pod" / "inner"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../../escaped", "x")
        opened.writestr("/absolute", "x")
    unpack_archive(archive, folder)
    assert not (tmp_path / "escaped").exists()
    assert not Path("/absolute").exists()


def test_a_wheel_that_cannot_be_installed_is_told_in_the_same_words_each_time_and_not_tried_again(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", **{"/absolute.py": "x = 1\n"}), ("words-1.0-py3-none-any.whl", b"no wheel"))
    messages = []
    for name in ("greetings", "words"):
        for work in ("one", "two"):
            with pytest.raises(FinalError) as told:
                installed(index.lock(name), index.url, credentials, tmp_path / f"{name}-{work}")
            messages.append(str(told.value))
    assert len(set(messages)) == 2
    assert "/absolute.py" in messages[0]
    assert not Path("/absolute.py").exists()


def test_a_wheel_does_not_replace_what_says_whom_the_packages_are_for(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", **{"tieline-packages.json": '{"python": "cp27"}'}))
    archive = installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    with zipfile.ZipFile(archive) as opened:
        assert opened.namelist().count("tieline-packages.json") == 1
        assert b"cp27" not in opened.read("tieline-packages.json")


def test_packages_that_are_too_large_are_not_tried_again(
    index: LocalIndex, credentials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline_packages.archive.MAX_UNPACKED_BYTES", 100)
    index.add(wheel("greetings"))
    with pytest.raises(FinalError, match="fewer or smaller"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_a_password_may_have_spaces_and_quotes(credentials: Path, tmp_path: Path) -> None:
    (credentials / "password").write_text('a "b\\c" #d\n')
    path = tmp_path / "netrc"
    path.write_text(Index(url="https://pypi.example/simple", credentials=credentials).netrc())
    assert netrc.netrc(str(path)).authenticators("pypi.example") == ("reader", "", 'a "b\\c" #d')


def test_a_password_that_is_no_text_is_told_without_it(
    credentials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (credentials / "password").write_bytes(b"\xff\xfesecret")
    monkeypatch.setenv("TIELINE_INDEX_SECRET_DIR", str(credentials))
    monkeypatch.setenv("TIELINE_TERMINATION_LOG", str(tmp_path / "told"))
    with pytest.raises(SystemExit):
        main()
    assert "password" in (tmp_path / "told").read_text()
    assert "secret" not in capsys.readouterr().err.replace("Secret", "")


def test_packages_of_another_python_are_refused_with_what_to_do(tmp_path: Path) -> None:
    source, folder, archive = tmp_path / "in", tmp_path / "out", tmp_path / "packages.zip"
    source.mkdir()
    folder.mkdir()
    write_archive(source, archive, {"python": "cp27", "lock": "x"})
    unpack_archive(archive, folder)
    with pytest.raises(PackagesError, match="installed for cp27"):
        activate(folder)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to https://me:pw@pypi.example/simple", "no route to https://***@pypi.example/simple"),
        ("the password is an-index-password", "the password is ***"),
        ("plain", "plain"),
    ],
)
def test_messages_hold_no_credentials(text: str, shown: str) -> None:
    assert masked(text, [PASSWORD]) == shown
