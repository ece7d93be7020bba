"""When the authority and the certificates are replaced, with a clock that is turned."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tieline_operator.tls.authority import DISTRIBUTION, Authority, certificate, renewed
from tieline_operator.tls.certificates import (
    AUTHORITY_VALID,
    CERTIFICATE_VALID,
    InvalidCertificateError,
    Issued,
    bundle,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("tieline-api-internal.tieline-system.svc", "tieline-api-internal.tieline-system")


def trusts(trusted: str, issued: Issued) -> bool:
    """Whether a client that trusts these verifies the server's certificate: it is of one of them."""
    found = [one + "-----END CERTIFICATE-----\n" for one in trusted.split("-----END CERTIFICATE-----\n")[:-1]]
    return any(issued.is_issued_by(authority_of(one)) for one in found)


def authority_of(text: str) -> Issued:
    """An authority without its key."""
    made = object.__new__(Issued)
    object.__setattr__(made, "certificate", text)
    return made


def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left() -> None:
    authority = Issued.authority(BEGIN)
    first = certificate(None, authority, NAMES, BEGIN)
    due = BEGIN + CERTIFICATE_VALID * 2 / 3
    assert certificate(first, authority, NAMES, due - timedelta(minutes=1)) is first
    second = certificate(first, authority, NAMES, due)
    assert second.expires == due + CERTIFICATE_VALID
    assert second.key != first.key


def test_a_certificate_for_other_names_or_of_another_authority_is_replaced() -> None:
    authority = Issued.authority(BEGIN)
    first = certificate(None, authority, NAMES, BEGIN)
    assert certificate(first, authority, NAMES[:1], BEGIN).names == {NAMES[0]}
    assert not certificate(first, Issued.authority(BEGIN), NAMES, BEGIN).is_issued_by(authority)


def test_through_years_each_client_trusts_each_server_although_both_are_late() -> None:
    """Clients and servers have what was written up to an hour ago, as the kubelet brings it."""
    authority = renewed(None, BEGIN)
    server = certificate(None, authority.current, NAMES, BEGIN)
    bundles, servers = {authority.trusted}, {server}
    before = (authority.trusted, server)
    replaced, now = 0, BEGIN
    while now < BEGIN + 3 * AUTHORITY_VALID:
        # Hours are long where nothing happens.
        now += DISTRIBUTION if authority.following or authority.previous else timedelta(days=3)
        last, authority = authority, renewed(authority, now)
        replaced += last.current is not authority.current
        server = certificate(server, authority.current, NAMES, now)
        bundles, servers = {before[0], authority.trusted}, {before[1], server}
        assert all(trusts(trusted, one) for trusted in bundles for one in servers), now
        assert now < server.expires
        assert now < authority.current.expires
        before = (authority.trusted, server)
    assert replaced >= 3


def test_a_new_authority_is_distributed_before_it_signs_and_the_old_one_goes_last() -> None:
    first = renewed(None, BEGIN)
    due = BEGIN + AUTHORITY_VALID * 2 / 3
    times = [due, due + DISTRIBUTION, due + 2 * DISTRIBUTION]
    steps = [first]
    for now in times:
        early = renewed(steps[-1], now - timedelta(minutes=1))
        assert early == steps[-1], "nothing happens before its time"
        steps.append(renewed(early, now))
    _, distributed, signing, done = steps
    assert distributed.current == first.current
    assert [one.trusted.count("BEGIN") for one in steps] == [1, 2, 2, 1]
    assert signing.current == distributed.following == done.current
    assert all(before.trusted != after.trusted for before, after in pairwise((first, distributed)))


def test_an_authority_is_replaced_early_on_demand_and_once() -> None:
    first = renewed(None, BEGIN)
    now = BEGIN + timedelta(days=1)
    second = renewed(first, now, replace_before=now)
    assert second.following is not None
    for _ in range(4):
        now += DISTRIBUTION
        second = renewed(second, now, replace_before=BEGIN + timedelta(days=1))
    assert second.trusted.count("BEGIN") == 1
    assert second.current != first.current


def test_an_authority_that_has_expired_is_replaced_at_once() -> None:
    first = renewed(None, BEGIN)
    assert renewed(first, BEGIN + AUTHORITY_VALID).current != first.current


def test_an_authority_survives_its_secret() -> None:
    authority = renewed(renewed(None, BEGIN), BEGIN + AUTHORITY_VALID * 2 / 3)
    assert Authority.from_values(authority.to_values(), authority.since) == authority


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ca.crt": "hunter2", "ca.key": "hunter2"},
        {"ca.crt": Issued.authority(BEGIN).certificate, "ca.key": Issued.authority(BEGIN).key},
    ],
)
def test_what_is_no_authority_is_refused_without_being_quoted(values: dict[str, str]) -> None:
    with pytest.raises(InvalidCertificateError) as refused:
        Authority.from_values(values, None)
    assert "hunter2" not in str(refused.value)


def test_a_server_s_certificate_is_no_authority() -> None:
    issued = Issued.authority(BEGIN).issue(NAMES, BEGIN)
    with pytest.raises(InvalidCertificateError):
        Authority.from_values({"ca.crt": issued.certificate, "ca.key": issued.key}, None)


def test_a_bundle_has_certificates_alone() -> None:
    authority = Issued.authority(BEGIN)
    assert bundle([authority.certificate + authority.key, authority.certificate]) == authority.certificate
    assert "PRIVATE" not in bundle([authority.certificate + authority.key])


def test_keys_do_not_appear_when_objects_are_printed() -> None:
    assert "PRIVATE" not in repr(renewed(None, BEGIN))


def test_openssl_accepts_the_certificates() -> None:
    authority = renewed(None, datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.trusted)
    (found,) = context.get_ca_certs()
    assert dict(part[0] for part in found["subject"])["commonName"].startswith("Tieline ")
