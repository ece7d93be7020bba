"""Contexts and tokens: which platform a command speaks to, and where its token is kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.contexts import Context, ContextFile, SignIn, checked_url, selected
from tieline.cli.remote.sign_in import header_of
from tieline.cli.remote.token_store import FileStore, token_store

ORGANISATION = "01JD3Y000000000000000000RG"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TIELINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIELINE_CONFIG_FOLDER", str(tmp_path))
    monkeypatch.setenv("TIELINE_NO_KEYRING", "1")
    return tmp_path


def context(name: str = "prod", **more: object) -> Context:
    return Context(name=name, url="https://tieline.example", organisation=ORGANISATION, **more)  # type: ignore[arg-type]


def test_a_context_comes_back_as_it_was_saved() -> None:
    saved = context(
        sign_in=SignIn(kind="oidc", issuer="https://login.example", client_id="cli"), ca_file="/ca.pem"
    )
    ContextFile().save(saved)
    assert ContextFile().named("prod") == saved
    assert selected(None) == saved


def test_the_last_sign_in_is_current_until_another_is_chosen() -> None:
    file = ContextFile()
    file.save(context("one"))
    file.save(context("two"))
    assert selected(None).name == "two"
    file.use("one")
    assert selected(None).name == "one"
    assert selected("two").name == "two"
    file.delete("one")
    with pytest.raises(CommandError, match="not signed in"):
        selected(None)


def test_an_unknown_context_names_those_that_there_are() -> None:
    ContextFile().save(context("prod"))
    with pytest.raises(CommandError, match="known are: prod") as refused:
        selected("prdo")
    assert refused.value.code is ExitCode.NOT_FOUND


def test_environment_variables_make_a_context_for_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    ContextFile().save(context())
    monkeypatch.setenv("TIELINE_URL", "https://other.example/")
    with pytest.raises(UsageError, match="TIELINE_ORGANISATION and TIELINE_TOKEN"):
        selected(None)
    monkeypatch.setenv("TIELINE_ORGANISATION", ORGANISATION.lower())
    monkeypatch.setenv("TIELINE_TOKEN", "secret")
    found = selected(None)
    assert (found.url, found.organisation, found.token) == ("https://other.example", ORGANISATION, "secret")
    assert "secret" not in repr(found)


def test_an_organisation_can_be_another_than_the_context_s() -> None:
    ContextFile().save(context())
    other = "01JD3Y000000000000000000RH"
    assert selected(None, organisation=other).organisation == other
    with pytest.raises(UsageError, match="no organisation's id"):
        selected(None, organisation="acme")


@pytest.mark.parametrize("content", ["- a list", "contexts: {prod: {}}", "{", "contexts: [1]", "\x00"])
def test_a_spoilt_configuration_is_named(folder: Path, content: str) -> None:
    (folder / "config.yaml").write_text(content)
    with pytest.raises(CommandError, match=r"config\.yaml"):
        selected("prod")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("tieline.example", "https://tieline.example"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("https://example.com/tieline/", "https://example.com/tieline"),
    ],
)
def test_an_address_needs_no_scheme(text: str, url: str) -> None:
    assert checked_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://x", "https://user:password@x", "https://"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        checked_url(text)


def test_without_a_keyring_a_token_is_in_a_file_for_its_owner_alone(folder: Path) -> None:
    store = token_store(folder)
    assert store.get("prod") is None
    store.put("prod", {"token": "secret"})
    path = folder / "tokens/prod.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.get("prod") == {"token": "secret"}
    store.delete("prod")
    store.delete("prod")
    assert not path.exists()


def test_a_token_that_others_may_read_is_not_used(folder: Path) -> None:
    store = FileStore(folder)
    store.put("prod", {"token": "secret"})
    (folder / "tokens/prod.json").chmod(0o644)
    with pytest.raises(CommandError, match="Others may read") as refused:
        store.get("prod")
    assert "secret" not in str(refused.value)


def test_jwts_are_bearer_tokens_and_others_are_api_keys() -> None:
    assert header_of("a.b.c") == {"Authorization": "Bearer a.b.c"}
    assert header_of("key-1") == {"X-API-Key": "key-1"}
    for token in ("a b", "a\nX-Header: 1", "ключ"):
        with pytest.raises(CommandError) as refused:
            header_of(token)
        assert token not in str(refused.value)
