"""What is wrong with a connection's credential, as ``errors`` in status and in REST.

Everything that is known comes in, nothing is asked for: operator and API give the same answer to the same facts.
No message holds a value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tieline_core.credentials.linker import Problem
from tieline_core.credentials.shared_accounts import sharing_warning
from tieline_core.credentials.tenants import CHANGED, CHANGED_MESSAGE
from tieline_core.credentials.validation.scheme_findings import inline_findings
from tieline_core.credentials.validation.secret_facts import SecretFacts, TokenFacts, ValueFacts
from tieline_core.credentials.validation.secret_keys import NEEDED_KEYS, secret_problem
from tieline_core.identity.ids import format_time
from tieline_core.oauth.refresh_coordinator import not_renewable, refusal_message
from tieline_core.resources.auth_schemes import AuthSchemeConfig, AuthSchemeType
from tieline_core.resources.connections import ConnectionCredential, CredentialType
from tieline_core.severity import Severity

OAUTH2 = frozenset(
    {
        CredentialType.OAUTH2_CLIENT,
        CredentialType.OAUTH2_CODE,
        CredentialType.OAUTH2_PASSWORD,
        CredentialType.OAUTH2_TOKEN,
    }
)
WITH_TOKENS = OAUTH2 | {CredentialType.OAUTH1}
"""Credentials that the platform may obtain tokens for."""
_OBTAINED_ANEW = frozenset({CredentialType.OAUTH2_CLIENT, CredentialType.OAUTH2_PASSWORD})
_VALUES = frozenset({CredentialType.STRING, CredentialType.BINARY})
# Which credentials an auth scheme can work with.
FITTING: Mapping[AuthSchemeType, frozenset[CredentialType]] = {
    AuthSchemeType.NONE: frozenset(CredentialType),
    AuthSchemeType.API_KEY: _VALUES,
    AuthSchemeType.BASIC_AUTH: frozenset({CredentialType.BASIC_AUTH}),
    AuthSchemeType.OAUTH2: OAUTH2,
    AuthSchemeType.HMAC: _VALUES,
    AuthSchemeType.JWT_BEARER: _VALUES | {CredentialType.JWT_BEARER, CredentialType.CERTIFICATE},
    AuthSchemeType.CERTIFICATE: frozenset({CredentialType.CERTIFICATE}),
    AuthSchemeType.OAUTH1: frozenset({CredentialType.OAUTH1}),
    AuthSchemeType.SECRET: _VALUES,
}
EXPIRED = "CredentialExpired"
REFUSED = "CredentialRefused"
# What signs with an algorithm: a family of keys, or (HS) a secret that is no key.
_FAMILIES = {"RS": "RSA", "ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


@dataclass(frozen=True, kw_only=True)
class KnownCredential:
    """What is known of a credential."""

    item: ConnectionCredential
    scheme: AuthSchemeConfig | None
    namespace: str
    system: str
    """The System's name."""
    secret: SecretFacts | None = None
    """None where it refers to none."""
    consumer: SecretFacts | None = None
    """The Secret that an oauth1 scheme refers to."""
    tokens: TokenFacts | None = None
    """The tokens that the platform keeps for it; None where it keeps none."""
    holders: int = 0
    """How many connections of the organisation hold tokens of the same account, this one included."""
    links: tuple[Problem, ...] = field(default=())
    """What ``resolve`` has found about its client, certificate and URLs."""


def findings(known: KnownCredential, now: datetime) -> list[Problem]:
    """All that is wrong with a credential; empty when it is valid."""
    item = known.item
    if has_expired(item, now):
        return [_expired(item)]
    found = [*_fit(known)]
    if known.secret and item.type is not CredentialType.NONE:
        problem = secret_problem(known.secret, NEEDED_KEYS[item.type], known.namespace)
        if problem:
            return [*found, problem]
        if known.scheme and not found:
            found += _values(known, known.secret.values, now)
    for own in inline_findings(item.auth_scheme_config):
        if own.message.severity == Severity.ERROR:
            found.append(Problem(own.reason, f"Its auth scheme: {own.message.text}"))
    said = {one.reason for one in found}
    found += [one for one in known.links if one.reason not in said]
    found += [*_tokens(known.tokens, now, item.type)] if known.tokens else []
    return found


def warnings(known: KnownCredential) -> list[str]:
    """What may end a credential that can be used now."""
    found = sharing_warning(known.scheme, known.holders)
    return [found] if found else []


def has_expired(item: ConnectionCredential, now: datetime) -> bool:
    """Whether the credential's ``expiresAt`` has come: it is deleted, or about to be."""
    return item.expires_at is not None and item.expires_at <= now


def recheck_times(known: KnownCredential, now: datetime) -> list[datetime]:
    """The moments to come at which the answer may be another one, by time alone."""
    values = known.secret.values if known.secret else ValueFacts()
    certificate = values.certificate
    moments = [
        known.item.expires_at,
        certificate.not_before if certificate else None,
        certificate.not_after if certificate else None,
        known.tokens.expires_at if known.tokens else None,
        values.expires_at if known.item.type is CredentialType.OAUTH2_TOKEN and not known.tokens else None,
    ]
    return [moment for moment in moments if moment is not None and moment > now]


def _expired(item: ConnectionCredential) -> Problem:
    when = format_time(item.expires_at) if item.expires_at else ""
    return Problem(
        EXPIRED,
        f"The credential has expired at {when} and is deleted; replace it, or take it out of the spec",
    )


def _fit(known: KnownCredential) -> Iterator[Problem]:
    item, scheme = known.item, known.scheme
    if scheme is None:
        yield Problem(
            "AuthSchemeNotFound",
            f'System "{known.system}" has no auth scheme "{item.auth_scheme_config_id}"; '
            "correct authSchemeConfigId or add the scheme",
        )
    elif item.type is not CredentialType.NONE and item.type not in FITTING[scheme.type]:
        usable = ", ".join(sorted(FITTING[scheme.type]))
        yield Problem(
            "CredentialTypeWrong",
            f"An auth scheme of type {scheme.type} cannot use a credential of type {item.type}; use {usable}",
        )


def _values(known: KnownCredential, values: ValueFacts, now: datetime) -> Iterator[Problem]:
    item, scheme = known.item, known.scheme
    if scheme is None or scheme.type is AuthSchemeType.NONE:
        return
    raw = scheme.type in (AuthSchemeType.HMAC, AuthSchemeType.JWT_BEARER)
    no_text = sorted(values.no_text) if not raw else sorted(values.no_text - {"value", "key"})
    if no_text:
        yield Problem(
            "ValueNotText",
            f"{', '.join(no_text)} is no text in UTF-8, and the auth scheme needs text; correct the Secret",
        )
    broken = sorted(values.broken & _in_headers(scheme))
    if broken:
        yield Problem(
            "ValueBroken",
            f"{', '.join(broken)} has a line break (often the last character of a file), which cannot be sent; "
            "take it out of the Secret",
        )
    if item.type is CredentialType.BASIC_AUTH and values.colon:
        yield Problem(
            "UsernameWrong",
            "username has a colon, which basic authentication cannot carry (RFC 7617); use another user name",
        )
    if scheme.type is AuthSchemeType.CERTIFICATE or item.type is CredentialType.CERTIFICATE:
        yield from _certificate(values, now)
    if scheme.jwt_bearer:
        key = "key" if "key" in values.keys else "value"
        yield from _signing_key(values, key, str(scheme.jwt_bearer.algorithm))
    if scheme.oauth1:
        yield from _oauth1(known, scheme.oauth1.signature_method, values)
    if item.type is CredentialType.OAUTH2_TOKEN and known.tokens is None:
        yield from _given_token(values, now)


def _in_headers(scheme: AuthSchemeConfig) -> frozenset[str]:
    """The keys whose value travels in a header as it is."""
    if scheme.oauth2:
        return frozenset({"accessToken", "tokenType"})
    location = str(scheme.api_key.in_) if scheme.api_key else str(scheme.secret.in_) if scheme.secret else ""
    return frozenset({"value"}) if location in ("header", "cookie") else frozenset()


def _certificate(values: ValueFacts, now: datetime) -> Iterator[Problem]:
    found = values.certificate
    if found is None:
        return
    if found.problem:
        yield Problem("CertificateWrong", f"The {found.problem}")
    elif found.not_after and found.not_after <= now:
        yield Problem(
            "CertificateEnded", f"The certificate has ended at {format_time(found.not_after)}; replace it"
        )
    elif found.not_before and found.not_before > now:
        yield Problem(
            "CertificateNotYetValid",
            f"The certificate is valid from {format_time(found.not_before)} on; wait, or use another one",
        )


def _signing_key(values: ValueFacts, key: str, algorithm: str) -> Iterator[Problem]:
    found = values.signing.get(key)
    if algorithm.startswith("HS"):
        if found is not None:
            yield Problem(
                "KeyWrong",
                f"{key} is a key in PEM, and {algorithm} signs with a shared secret; "
                "use that, or choose an algorithm of the RS or ES family",
            )
        return
    family = _FAMILIES.get(algorithm) or _FAMILIES[algorithm[:2]]
    if found is None:
        yield Problem("KeyWrong", f"{key} is not a private key in PEM, which {algorithm} needs; replace it")
    elif found.problem:
        yield Problem("KeyWrong", f"The {key} {found.problem}")
    elif found.family != family:
        yield Problem(
            "KeyWrong",
            f"{key} is {found.family or 'of a kind that signs no tokens'}, and {algorithm} needs {family}; "
            "replace it, or change the scheme's algorithm",
        )


def _oauth1(known: KnownCredential, method: str, values: ValueFacts) -> Iterator[Problem]:
    consumer = known.consumer.values if known.consumer else ValueFacts()
    holder = values if "consumerSecret" in values.keys else consumer
    named = known.scheme and known.scheme.oauth1 and known.scheme.oauth1.credential_id
    if "consumerSecret" not in holder.keys and named:
        return  # what the credential that it names lacks is among the links
    if "consumerSecret" not in holder.keys:
        yield Problem(
            "SecretKeyMissing",
            "Neither the credential's Secret nor the auth scheme's has consumerSecret; add it to one of them",
        )
    elif method.startswith("RSA"):
        found = holder.signing.get("consumerSecret")
        if found is None or found.problem or found.family != "RSA":
            yield Problem(
                "KeyWrong", f"consumerSecret is not an RSA key in PEM, which {method} needs; replace it"
            )


def _tokens(tokens: TokenFacts, now: datetime, kind: CredentialType) -> Iterator[Problem]:
    if tokens.refused is not None:
        yield Problem(REFUSED, refusal_message(tokens.refused))
    elif tokens.of_other_tenant and kind not in _OBTAINED_ANEW:
        yield Problem(CHANGED, CHANGED_MESSAGE)
    elif tokens.obtained and tokens.due_at is None and tokens.expires_at and tokens.expires_at <= now:
        yield Problem(REFUSED, str(not_renewable()))


def _given_token(values: ValueFacts, now: datetime) -> Iterator[Problem]:
    """Tokens that a person stored and that nothing renews."""
    ended = values.expires_at is not None and values.expires_at <= now
    if ended and "refreshToken" not in values.keys:
        yield Problem(REFUSED, str(not_renewable()))
