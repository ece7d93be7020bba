"""``tieline-operator engine-credentials``: a file for each account, which its owner alone can read."""

from __future__ import annotations

import base64
import io
import json
import stat
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tieline_core.engine.trust import BackupAccess, EngineTrust, backup_until
from tieline_engine.credentials import Credentials
from tieline_operator import engine_credentials
from tieline_operator.engine_credentials import (
    INDEX,
    PREFIX,
    archive,
    credentials_files,
    environment_accounts,
    write_files,
)

NOW = datetime(2026, 11, 25, tzinfo=UTC)
ACME, COPY = "01BX5ZZKBKACTAV9WEVGEMMVRZ", "01BX5ZZKBKACTAV9WEVGEMMVRY"


def namespace(name: str, organisation: str | None, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    labels = {"tieline.dev/organisation": organisation} if organisation else {}
    return {"metadata": {"name": name, "labels": labels, "creationTimestamp": created}}


def secret(where: str, environment: str | None, name: str = "production") -> dict[str, Any]:
    labels = {"tieline.dev/project": "orders", "tieline.dev/environment": name}
    if environment:
        labels["tieline.dev/environment-id"] = environment
    return {"metadata": {"name": f"{name}-engine", "namespace": where, "labels": labels}}


def claims(credentials: str) -> dict[str, Any]:
    part = Credentials.parse(credentials).user_jwt_cb().decode().split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def made(trust: EngineTrust, hours: float = 1) -> dict[str, str]:
    found = environment_accounts(
        [secret("acme", "e1"), secret("acme", "e2", "staging")], [namespace("acme", ACME)], {}
    )
    access = BackupAccess(until=NOW + timedelta(hours=hours), prefix="$JS.API.secret")
    return dict(credentials_files(trust, found, access, now=NOW))


def test_environments_are_those_of_organisations_with_credentials() -> None:
    found = environment_accounts(
        [secret("acme", "e1"), secret("copy", "e2"), secret("none", "e3"), secret("acme", None)],
        [
            namespace("copy", ACME, "2026-02-01T00:00:00Z"),
            namespace("acme", ACME),
            namespace("none", None),
            namespace("other", COPY),
        ],
        {},
    )
    assert [(one.namespace, one.streams.organisation, one.streams.environment) for one in found] == [
        ("acme", ACME, "e1")
    ]


def test_each_account_has_a_file_with_all_rights_that_ends() -> None:
    trust = EngineTrust()
    files = made(trust, hours=2)
    index = [line.split("\t") for line in files.pop(INDEX).splitlines()]
    assert files.pop(PREFIX) == "$JS.API.secret\n"
    assert [line[0] for line in index] == list(files)
    assert [line[2:] for line in index] == [
        ["-", "-", "-"],
        ["acme", "orders", "production"],
        ["acme", "orders", "staging"],
    ]
    assert index[0][1] == trust.account.public_key
    for name, account, *_ in index:
        found = claims(files[name])
        assert found["nats"]["issuer_account"] == account
        assert found["exp"] == int((NOW + timedelta(hours=2)).timestamp())
        assert "pub" not in found["nats"]
    assert len({line[1] for line in index}) == 3


def test_the_authorities_of_servers_that_speak_tls_are_beside_them() -> None:
    access = BackupAccess(until=NOW + timedelta(hours=1))
    files = dict(credentials_files(EngineTrust(), [], access, now=NOW, authorities="PEM"))
    assert files["ca.crt"] == "PEM"
    assert "ca.crt" not in files[INDEX]


def test_files_are_their_owners_alone_and_replace_nothing(tmp_path: Path) -> None:
    files = made(EngineTrust())
    folder = tmp_path / "new"
    write_files(folder, iter(files.items()))
    assert {path.name: path.read_text() for path in folder.iterdir()} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError, match="not empty"):
        write_files(folder, iter(files.items()))


def test_an_archive_has_the_same() -> None:
    files = made(EngineTrust())
    with tarfile.open(fileobj=io.BytesIO(archive(iter(files.items()), NOW))) as tar:
        assert {item.mode for item in tar.getmembers()} == {0o600}
        read = {item.name: tar.extractfile(item).read().decode() for item in tar.getmembers()}  # type: ignore[union-attr]
    assert read == files


async def test_a_second_backup_leaves_the_first_its_prefix_until_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restore that loses it has deleted streams and cannot make them again."""
    trust, now = EngineTrust(), datetime.now(UTC)
    ended, first, second = (BackupAccess(until=now + timedelta(hours=hours)) for hours in (-1, 4, 1))
    servers = [_said(trust.system_jwt(now, backup=replace(first, others=(ended,))))]

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncIterator[None]:
        yield None

    async def known(*_: Any) -> dict[str, Any]:
        return servers[-1]

    async def push(_system: None, jwt: str) -> None:
        servers.append(_said(jwt))

    monkeypatch.setattr(engine_credentials, "account_client", opened)
    monkeypatch.setattr(engine_credentials, "account_claims_of", known)
    monkeypatch.setattr(engine_credentials, "push_account", push)
    await engine_credentials._give(second, trust, [])
    leads = {
        source for source, to in servers[-1]["nats"]["mappings"].items() if to == [{"subject": "$JS.API.>"}]
    }
    assert leads == {f"{first.prefix}.>", f"{second.prefix}.>", "tieline.manage.>"}
    assert backup_until(servers[-1]) == first.until.replace(microsecond=0)


def _said(jwt: str) -> dict[str, Any]:
    part = jwt.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found
