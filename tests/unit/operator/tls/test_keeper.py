"""What the operator writes for TLS, on a cluster in memory."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tieline_core.kubernetes import AlreadyExists, Applied, NotFound, Resource
from tieline_core.tls import CertificateSource
from tieline_operator.tls.authority import DISTRIBUTION
from tieline_operator.tls.certificates import AUTHORITY_VALID, Issued
from tieline_operator.tls.keeper import TlsKeeper
from tieline_operator.tls.objects import REPLACE_ANNOTATION

HOME = "tieline-system"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Secrets:
    """The Secrets of a namespace, and how often they were written."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes = 0

    async def get(self, _resource: Resource, name: str, _namespace: str | None = None) -> Mapping[str, Any]:
        try:
            return self.objects[name]
        except KeyError:
            raise NotFound("not found") from None

    async def create(self, _resource: Resource, obj: Mapping[str, Any], **_: Any) -> Mapping[str, Any]:
        if obj["metadata"]["name"] in self.objects:
            raise AlreadyExists("exists")
        return self._store(obj)

    async def apply(self, _resource: Resource, obj: Mapping[str, Any], **_: Any) -> Applied:
        return Applied(object=self._store(obj), created=False)

    async def delete(self, *_: Any, **__: Any) -> object:
        raise AssertionError

    def _store(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        self.writes += 1
        before = self.objects.get(obj["metadata"]["name"], {}).get("metadata", {}).get("annotations", {})
        annotations = {**before, **obj["metadata"].get("annotations", {})}
        metadata = {**obj["metadata"], "annotations": annotations, "resourceVersion": str(self.writes)}
        self.objects[metadata["name"]] = {**obj, "metadata": metadata}
        return self.objects[metadata["name"]]

    def value(self, name: str, key: str) -> str:
        return base64.b64decode(self.objects[name]["data"][key]).decode()


class Kept:
    """A keeper with a clock."""

    def __init__(self, source: CertificateSource = CertificateSource.OPERATOR) -> None:
        self.secrets = Secrets()
        self.now = BEGIN
        self.changes = 0
        self.keeper = TlsKeeper(
            self.secrets,
            self.secrets,
            namespace=HOME,
            source=source,
            changed=self._changed,
            now=lambda: self.now,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def at(self, now: datetime) -> None:
        self.now = now
        assert await self.keeper.refresh(), self.keeper.problem


async def test_api_and_engine_get_certificates_and_a_second_look_writes_nothing() -> None:
    kept = Kept()
    await kept.at(BEGIN)
    for name, host in (("tieline-api-tls", "tieline-api-internal"), ("tieline-engine-tls", "tieline-engine")):
        issued = Issued(kept.secrets.value(name, "tls.crt"), kept.secrets.value(name, "tls.key"))
        assert f"{host}.{HOME}.svc" in issued.names
        assert kept.secrets.value(name, "ca.crt") == kept.keeper.trusted
    written = kept.secrets.writes
    await kept.at(BEGIN + timedelta(days=1))
    assert (kept.secrets.writes, kept.changes) == (written, 1)


async def test_the_authority_is_replaced_in_three_steps_that_all_are_told_of() -> None:
    kept = Kept()
    await kept.at(BEGIN)
    first = kept.keeper.trusted
    due = BEGIN + AUTHORITY_VALID * 2 / 3
    for number in range(3):
        await kept.at(due + number * DISTRIBUTION)
        assert kept.secrets.value("tieline-api-tls", "ca.crt") == kept.keeper.trusted
    assert kept.changes == 3
    assert first not in kept.keeper.trusted


async def test_an_annotation_has_the_authority_replaced() -> None:
    kept = Kept()
    await kept.at(BEGIN)
    annotations = kept.secrets.objects["tieline-ca"]["metadata"]["annotations"]
    annotations[REPLACE_ANNOTATION] = "2026-01-02T00:00:00Z"
    await kept.at(BEGIN + timedelta(days=1))
    assert kept.keeper.trusted.count("BEGIN") == 2


async def test_a_deleted_authority_comes_back_as_it_was() -> None:
    kept = Kept()
    await kept.at(BEGIN)
    del kept.secrets.objects["tieline-ca"]
    await kept.at(BEGIN + timedelta(minutes=5))
    assert kept.changes == 1
    assert kept.secrets.value("tieline-ca", "ca.crt") == kept.keeper.trusted


async def test_an_authority_that_cannot_be_read_changes_nothing_and_is_not_quoted() -> None:
    kept = Kept()
    await kept.at(BEGIN)
    trusted = kept.keeper.trusted
    kept.secrets.objects["tieline-ca"]["data"]["ca.key"] = base64.b64encode(b"hunter2").decode()
    assert not await kept.keeper.refresh()
    assert "tieline-ca" in kept.keeper.problem
    assert "hunter2" not in kept.keeper.problem
    assert kept.keeper.trusted == trusted


async def test_nothing_is_trusted_before_the_authority_is_known() -> None:
    with pytest.raises(OSError, match="not known"):
        Kept().keeper.trust()


async def test_with_cert_manager_the_authorities_of_its_secrets_are_trusted_and_nothing_is_written() -> None:
    kept = Kept(CertificateSource.CERT_MANAGER)
    assert not await kept.keeper.refresh()
    assert "tieline-api-tls, tieline-engine-tls" in kept.keeper.problem
    authority = Issued.authority(BEGIN)
    for name in ("tieline-api-tls", "tieline-engine-tls"):
        data = {"ca.crt": base64.b64encode(authority.certificate.encode()).decode()}
        kept.secrets.objects[name] = {"metadata": {"name": name}, "data": data}
    await kept.at(BEGIN)
    assert kept.keeper.trusted == authority.certificate
    assert kept.secrets.writes == 0
