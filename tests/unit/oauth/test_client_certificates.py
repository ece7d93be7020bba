"""Mutual TLS at the token URL: which certificate is found, and what is said when there is none."""

from typing import Any

import pytest

from tests.harness.identity.certificate_authority import Authority
from tests.harness.identity.certificate_authority import pem as as_pem
from tests.unit.oauth.memory_lookups import MemoryLookups, credential, make, oauth2, system
from tieline_core.credentials.resolver import resolve
from tieline_core.identity.ids import credential_id, object_id

CERTIFICATES = {"id": "mtls", "type": "certificate"}


@pytest.fixture(scope="module")
def pem() -> dict[str, str]:
    certificate, key = Authority().issue("tieline")
    return {"certificate": certificate, "key": as_pem(key)}


def cert(identifier: str = "cert", **more: Any) -> dict[str, Any]:
    return credential(identifier, "certificate", "mtls", **more)


def connection(name: str, *credentials: dict[str, Any], day: int = 1, **more: Any) -> dict[str, Any]:
    return make(
        "Connection",
        name,
        day=day,
        name=name,
        systemRef={"name": "shop"},
        credentials=list(credentials),
        **more,
    )


def identifier(obj: dict[str, Any], item: str = "cert") -> str:
    return credential_id(object_id(obj), {"id": item})


async def linked(pem: dict[str, str], login: dict[str, Any], *others: dict[str, Any], **scheme: Any) -> Any:
    cluster = MemoryLookups(system(oauth2(mtlsEnabled=True, **scheme), CERTIFICATES), login, *others)
    cluster.put_secret("main", code="c")
    cluster.put_secret("cert", **pem)
    return await resolve(cluster, login, "main")


async def test_the_connections_own_certificate_comes_first(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-code"), cert(), day=5)
    found = await linked(pem, login, connection("older", cert()))
    assert found.problems == ()
    assert found.certificate_id == identifier(login)
    assert found.endpoint.tls is not None


async def test_else_it_is_the_oldest_of_the_systems_certificate_scheme(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-code"))
    older, newer = connection("older", cert(), day=3), connection("newer", cert(), day=4)
    of_a_user = connection("users", cert(), day=1, endUserRef={"name": "ada"})
    inline = connection(
        "inline",
        {k: v for k, v in cert().items() if k != "authSchemeConfigId"} | {"authSchemeConfig": CERTIFICATES},
        day=2,
    )
    found = await linked(pem, login, newer, of_a_user, inline, older)
    assert found.certificate_id == identifier(older), "never another user's, and only the system's scheme"


async def test_without_any_it_is_said_what_to_add(pem: dict[str, str]) -> None:
    found = await linked(pem, connection("login", credential(kind="oauth2-code")))
    (problem,) = found.problems
    assert problem.reason == "CertificateNotFound"
    assert "add a credential of type certificate" in problem.message
    assert found.endpoint is None


@pytest.mark.parametrize(
    ("named", "works"), [("cert", True), ("by-id", True), ("main", False), ("no", False)]
)
async def test_the_one_that_is_named_is_taken_or_nothing(
    pem: dict[str, str], named: str, works: bool
) -> None:
    login = connection("login", credential(kind="oauth2-code"), cert())
    other = connection("other", cert("second", credentialId="by-id", secretRef={"name": "cert"}))
    found = await linked(pem, login, other, mtlsCredentialId=named)
    assert (found.endpoint is not None) == works
    if named == "by-id":
        assert found.certificate_id == "by-id"


async def test_another_users_certificate_is_not_taken_although_it_is_named(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-code"), endUserRef={"name": "ben"})
    theirs = connection("theirs", cert(credentialId="adas"), endUserRef={"name": "ada"})
    found = await linked(pem, login, theirs, mtlsCredentialId="adas")
    assert [problem.reason for problem in found.problems] == ["CertificateNotFound"]


async def test_a_certificate_that_does_not_fit_its_key_is_said(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-code"), cert())
    found = await linked({**pem, "key": "no key"}, login)
    assert [problem.reason for problem in found.problems] == ["CertificateWrong"]


async def test_a_client_credentials_secret_may_ask_for_it_itself(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-client"), cert())
    cluster = MemoryLookups(system(oauth2(grant="clientCredentials", client={}), CERTIFICATES), login)
    cluster.put_secret("main", clientId="me", clientSecret="s", mTLSEnabled="true")
    cluster.put_secret("cert", **pem)
    found = await resolve(cluster, login, "main")
    assert found.certificate_id == identifier(login)


async def test_another_certificate_is_another_client(pem: dict[str, str]) -> None:
    login = connection("login", credential(kind="oauth2-code"), cert())
    first = await linked(pem, login)
    second = await linked({**pem, "certificate": pem["certificate"] + "\n"}, login)
    assert first.asked_as != second.asked_as
