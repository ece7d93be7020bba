"""Files with contexts and tokens: others can neither read tokens, nor send them elsewhere by a change of a file."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote import device_login, sign_in
from tieline.cli.remote.contexts import Context, ContextFile, SignIn
from tieline.cli.remote.private_files import locked
from tieline.cli.remote.sign_in import Authentication, stored_token
from tieline.cli.remote.token_store import FileStore

ORGANISATION = "01JD3Y000000000000000000RG"
OIDC = SignIn(kind="oidc", issuer="https://login.example", client_id="cli")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TIELINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIELINE_CONFIG_FOLDER", str(tmp_path / "tieline"))
    monkeypatch.setenv("TIELINE_NO_KEYRING", "1")
    return tmp_path / "tieline"


def context(name: str = "prod", **more: object) -> Context:
    return Context(name=name, url="https://tieline.example", organisation=ORGANISATION, **more)  # type: ignore[arg-type]


def test_folders_and_files_are_their_owner_s_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o002)
    try:
        FileStore(folder).put("prod", {"token": "secret"})
        ContextFile().save(context())
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    assert modes == {
        "tieline": 0o700,
        "tokens": 0o700,
        "prod.json": 0o600,
        "config.yaml": 0o600,
        ".lock": 0o600,
    }


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_configuration_that_others_may_change_is_not_used(folder: Path, mode: int) -> None:
    ContextFile().save(context())
    (folder / "config.yaml").chmod(mode)
    with pytest.raises(UsageError, match=r"Others may change .*chmod go-w"):
        ContextFile().contexts()


def test_a_folder_that_others_may_change_is_not_used(folder: Path) -> None:
    ContextFile().save(context())
    FileStore(folder).put("prod", {"token": "secret"})
    (folder / "tokens").chmod(0o777)
    with pytest.raises(UsageError, match="Others may change"):
        FileStore(folder).get("prod")
    folder.chmod(0o777)
    with pytest.raises(UsageError, match="Others may change"):
        ContextFile().contexts()


def test_a_configuration_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ContextFile().save(context())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    if folder.stat().st_uid == 0:
        os.chown(folder / "config.yaml", 23456, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        ContextFile().contexts()


def test_a_token_is_not_read_through_a_link_and_not_written_through_one(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"token": "theirs"}')
    elsewhere.chmod(0o600)
    (folder / "tokens").mkdir(parents=True)
    (folder / "tokens/prod.json").symlink_to(elsewhere)
    with pytest.raises(CommandError) as refused:
        FileStore(folder).get("prod")
    assert refused.value.code is ExitCode.NOT_SIGNED_IN
    FileStore(folder).put("prod", {"token": "ours"})
    assert "theirs" in elsewhere.read_text()
    assert FileStore(folder).get("prod") == {"token": "ours"}


def test_a_configuration_among_dotfiles_stays_a_link(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "tieline.yaml"
    target.parent.mkdir()
    folder.mkdir()
    (folder / "config.yaml").symlink_to(target)
    ContextFile().save(context())
    assert (folder / "config.yaml").is_symlink()
    assert ContextFile().named("prod") == context()
    assert "tieline.example" in target.read_text()


@pytest.mark.parametrize("name", ["config.yaml", "tokens/prod.json"])
def test_what_is_no_file_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True)
    os.mkfifo(folder / name, 0o600)
    with pytest.raises(CommandError, match="is no file"):
        ContextFile().contexts() if name == "config.yaml" else FileStore(folder).get("prod")


@pytest.mark.parametrize("name", ["../../x", "a/b", ""])
def test_a_context_s_name_in_the_file_leads_to_no_other_file(folder: Path, name: str) -> None:
    ContextFile().save(context())
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("  prod:", f"  {name!r}:"))
    with pytest.raises(UsageError, match="no context's name"):
        ContextFile().named(name)


def test_sign_ins_at_the_same_time_lose_no_context() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ContextFile().save(context(f"c{number}")), range(16)))
    assert len(ContextFile().contexts()) == 16


def test_of_commands_at_the_same_time_one_refreshes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(folder)
    store.put("prod", {"token": "old", "expires": 5, "refresh": "r0"})
    used: list[str] = []
    both = threading.Barrier(2, timeout=30)
    issuer = device_login.Issuer(token_endpoint="https://login.example/token")
    monkeypatch.setattr(device_login, "discover", lambda *_, **__: issuer)

    def refresh(_issuer: object, _client: str, token: str, **_: object) -> device_login.OidcTokens:
        used.append(token)
        return device_login.OidcTokens(token="new", refresh="r1", expires=1000)

    monkeypatch.setattr(device_login, "refresh", refresh)
    first_read = sign_in._valid

    def together(values: dict[str, str | float], now: float) -> tuple[str, float | None] | None:
        found = first_read(values, now)
        if found is None and not used and not waited.is_set():
            both.wait()
            waited.set()
        return found

    waited = threading.Event()
    monkeypatch.setattr(sign_in, "_valid", together)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda _: stored_token(context(sign_in=OIDC), store, lambda: 10.0), range(2))
        assert list(found) == [("new", 1000.0)] * 2
    assert used == ["r0"]
    assert store.get("prod") == {"token": "new", "expires": 1000, "refresh": "r1"}


def test_a_command_that_outlives_its_token_gets_a_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileStore(folder).put("prod", {"token": "a.b.c", "expires": 100, "refresh": "r0"})
    clock = [50.0]
    issuer = device_login.Issuer(token_endpoint="https://login.example/token")
    monkeypatch.setattr(device_login, "discover", lambda *_, **__: issuer)
    monkeypatch.setattr(
        device_login,
        "refresh",
        lambda *_, **__: device_login.OidcTokens(token="d.e.f", refresh="r1", expires=500),
    )
    authentication = Authentication(context(sign_in=OIDC), now=lambda: clock[0])
    assert authentication.headers() == {"Authorization": "Bearer a.b.c"}
    clock[0] = 101.0
    assert authentication.headers() == {"Authorization": "Bearer d.e.f"}


def test_a_lock_that_another_command_holds_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.cli.remote.private_files._LOCK_SECONDS", -1.0)
    with locked(folder), pytest.raises(CommandError, match="Another tieline command") as busy, locked(folder):
        pass
    assert busy.value.code is ExitCode.UNAVAILABLE
