"""Mutual TLS, against a server that takes nobody without a certificate of its authority."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.identity.certificate_authority import Authority, pem
from tests.unit.runtime.external_systems import (
    ContextFor,
    External,
    configured,
    context,
    environment,
    scheme_credential,
)
from tieline import CredentialError, ForeignRedirectError
from tieline.configuration.snapshot import parse
from tieline_protocol.oauth.token_client import client_certificate

_PLAIN = ssl.create_default_context


@dataclass
class Bank:
    """An https server that notes the name in each client's certificate."""

    authority: Authority
    names: list[str] = field(default_factory=list)
    redirect: str = ""
    server: TestServer = field(init=False)

    async def start(self, folder: Path, *, required: bool = True) -> None:
        certificate, key = self.authority.issue("bank")
        files = folder / "certificate.pem", folder / "key.pem"
        files[0].write_text(certificate)
        files[1].write_text(pem(key))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority.ca)
        tls.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        tls.load_cert_chain(*files)
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)
        self.server = TestServer(application, scheme="https")
        await self.server.start_server(ssl=tls)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        self.names += [value for ((name, value),) in certificate.get("subject", ()) if name == "commonName"]
        if self.redirect and request.path == "/moved":
            raise web.HTTPFound(self.redirect)
        return web.Response(text="ok")


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    bank = Bank(Authority())
    await bank.start(tmp_path)
    yield bank
    await bank.server.close()


def certificate(bank: Bank, name: str, **more: str) -> dict[str, Any]:
    issued, key = bank.authority.issue(name)
    data = {"certificate": issued, "key": pem(key), "ca": bank.authority.ca, **more}
    return scheme_credential("certificate", {}, type="certificate", **data)


async def test_the_server_sees_the_connections_certificate(bank: Bank, context_for: ContextFor) -> None:
    ctx = context_for(environment(bank.url, certificate(bank, "tieline")))
    assert (await ctx.fetch("shop", "/accounts")).status == 200
    assert bank.names == ["tieline"]


def strict(*arguments: Any, **keywords: Any) -> ssl.SSLContext:
    """What ``ssl.create_default_context`` makes from Python 3.13 on, which the image has."""
    context = _PLAIN(*arguments, **keywords)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def test_an_authority_without_the_extensions_of_rfc_5280_is_trusted(
    bank: Bank, context_for: ContextFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl, "create_default_context", strict)
    ctx = context_for(environment(bank.url, certificate(bank, "tieline")))
    assert (await ctx.fetch("shop", "/accounts")).status == 200
    issued, key = bank.authority.issue("tieline")
    tls = client_certificate(certificate=issued, key=pem(key), ca=bank.authority.ca)
    async with aiohttp.ClientSession() as session, session.get(f"{bank.url}/token", ssl=tls) as answer:
        assert answer.status == 200


async def test_without_one_nobody_gets_in(bank: Bank, client: aiohttp.ClientSession) -> None:
    trusting = ssl.create_default_context(cadata=bank.authority.ca)
    with pytest.raises(aiohttp.ClientError):
        await client.get(f"{bank.url}/accounts", ssl=trusting)
    assert bank.names == []


async def test_a_server_of_another_authority_is_not_trusted(bank: Bank, context_for: ContextFor) -> None:
    ctx = context_for(environment(bank.url, certificate(bank, "tieline", ca=Authority().ca)))
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await ctx.fetch("shop", "/accounts")
    assert bank.names == []


async def test_two_connections_of_one_pool_never_show_each_others_certificate(
    bank: Bank, client: aiohttp.ClientSession
) -> None:
    ann, ben = (environment(bank.url, certificate(bank, name)) for name in ("ann", "ben"))
    configuration = configured(ann)
    ctx = context(client, configuration)
    for body in (ann, ben, ann):
        configuration.publish(parse(body))
        await ctx.fetch("shop", "/accounts")
    assert bank.names == ["ann", "ben", "ann"]


async def test_another_origin_is_not_shown_the_certificate(
    bank: Bank, external: External, context_for: ContextFor
) -> None:
    bank.redirect = f"{external.url}/elsewhere"
    ctx = context_for(environment(bank.url, certificate(bank, "tieline")))
    with pytest.raises(ForeignRedirectError):
        await ctx.fetch("shop", "/moved")
    assert external.seen == []


async def test_a_key_that_does_not_fit_is_told_without_its_value(bank: Bank, context_for: ContextFor) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    problems: tuple[dict[str, str], ...] = (
        {"key": pem(other)},
        {"key": pem(other, b"password")},
        {"key": "no key"},
        {"ca": "no certificate"},
    )
    for problem in problems:
        with pytest.raises(CredentialError, match="PEM") as failure:
            await context_for(environment(bank.url, certificate(bank, "x", **problem))).fetch("shop")
        assert "BEGIN" not in str(failure.value)


async def test_a_certificate_is_not_taken_for_plain_http(
    bank: Bank, external: External, context_for: ContextFor
) -> None:
    with pytest.raises(CredentialError, match="https"):
        await context_for(environment(external.url, certificate(bank, "x"))).fetch("shop")
    assert external.seen == []
