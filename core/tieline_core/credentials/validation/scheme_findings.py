"""What is wrong, or odd, with an auth scheme: ``validationMessages`` in status and in REST."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tieline_core.credentials.linker import Problem
from tieline_core.credentials.validation.finding import SchemeFinding, error, info, warning
from tieline_core.credentials.validation.oauth_scheme_findings import oauth1_findings, oauth2_findings
from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.credentials.validation.secret_keys import secret_problem
from tieline_core.resources.auth_schemes import (
    ApiKey,
    AuthSchemeConfig,
    AuthSchemeType,
    Hmac,
    JwtBearer,
    SharedSecret,
)
from tieline_core.resources.fields import Reference
from tieline_core.severity import Severity
from tieline_protocol import signatures
from tieline_protocol.url_inputs import UrlInputs

CLIENT_SECRET, CONSUMER_SECRET = "clientSecret", "consumerSecret"
# What the HTTP client writes by itself: a value of ours there breaks the request.
_NOT_OURS = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_SET_BY_US = frozenset({"iat", "exp", "jti"})


@dataclass(frozen=True, kw_only=True)
class KnownScheme:
    """An auth scheme with what it refers to."""

    scheme: AuthSchemeConfig
    siblings: Sequence[AuthSchemeConfig] = ()
    """All schemes of the System, this one too."""
    namespace: str = ""
    secrets: Mapping[str, SecretFacts] = field(default_factory=dict)
    """By name: all that ``references`` names."""
    links: tuple[Problem, ...] = ()
    """Why the credentials that it names cannot be used."""
    inputs: UrlInputs = field(default_factory=dict)
    """The System's, which URLs of its schemes may have in curly braces."""
    inline: bool = False
    """Whether it is a credential's own: what it refers to is then judged with the credential."""


def references(scheme: AuthSchemeConfig) -> Iterator[tuple[Reference, str]]:
    """The Secrets that a scheme refers to, each with the key that it needs."""
    grant = scheme.oauth2.grant if scheme.oauth2 else None
    for client in (grant.authorization_code, grant.password) if grant else ():
        if client and client.secret_ref:
            yield client.secret_ref, CLIENT_SECRET
    if scheme.oauth1 and scheme.oauth1.secret_ref:
        yield scheme.oauth1.secret_ref, CONSUMER_SECRET


def scheme_findings(known: KnownScheme) -> list[SchemeFinding]:
    """All findings, errors first."""
    order = (Severity.ERROR, Severity.WARNING, Severity.INFO)
    return sorted(_findings(known), key=lambda finding: order.index(finding.message.severity))


def inline_findings(scheme: AuthSchemeConfig | None) -> list[SchemeFinding]:
    """The findings about a credential's own auth scheme; none where it has none."""
    return scheme_findings(KnownScheme(scheme=scheme, inline=True)) if scheme else []


def _findings(known: KnownScheme) -> Iterator[SchemeFinding]:
    scheme = known.scheme
    for reference, key in () if known.inline else references(scheme):
        facts = known.secrets.get(reference.name) or SecretFacts(name=reference.name)
        problem = secret_problem(facts, ((key,),), known.namespace)
        if problem:
            yield error(problem.reason, problem.message)
    for link in known.links:
        yield error(link.reason, link.message)
    if scheme.oauth2:
        kinds = {sibling.type for sibling in known.siblings}
        found = known.inline or AuthSchemeType.CERTIFICATE in kinds
        yield from oauth2_findings(scheme.oauth2, certificate_scheme=found, inputs=known.inputs)
    if scheme.oauth1:
        yield from oauth1_findings(scheme.oauth1)
    for carried in (scheme.api_key, scheme.hmac, scheme.secret):
        if carried:
            yield from _location_findings(carried)
    if scheme.hmac:
        yield from _hmac(scheme.hmac)
    if scheme.jwt_bearer:
        yield from _jwt(scheme.jwt_bearer)
    yield from _alike(known)


def _location_findings(carried: ApiKey | Hmac | SharedSecret) -> Iterator[SchemeFinding]:
    if carried.name is None:
        return  # a preset's own
    location = str(carried.in_)
    if location == "header" and carried.name.lower() in _NOT_OURS:
        yield error(
            "NameReserved",
            f"the header {carried.name} is the HTTP client's own; choose the one that is asked for",
        )
    if location == "cookie" and not set(carried.name).isdisjoint("[]"):
        yield error("NameReserved", f'a cookie cannot be named "{carried.name}"; take the brackets out')
    if location == "query" and not isinstance(carried, Hmac):
        yield info(
            "SecretInUrl", "a secret in the URL ends up in logs on its way; prefer a header where you can"
        )


def _hmac(hmac: Hmac) -> Iterator[SchemeFinding]:
    if problem := signatures.problem_of(hmac.to_dict()):
        yield error("AuthSchemeIncomplete", problem)
        return
    scheme = signatures.parse(hmac.to_dict())
    inputs = Counter(one for one in hmac.digest_inputs or () if not one.startswith("literal:"))
    repeated = sorted(one for one, times in inputs.items() if times > 1)
    if repeated:
        yield warning("Repeated", "digestInputs names an input twice: it is signed twice", repeated)
    if scheme.algorithm == "sha1":
        yield warning("AlgorithmWeak", "sha1 is weak; use sha256 or sha512 if the system supports it")
    uses_tolerance = scheme.has_timestamp or scheme.id_header
    if "tolerance_seconds" in hmac.model_fields_set and not (uses_tolerance or scheme.preset):
        yield info(
            "NotUsed",
            "toleranceSeconds is used with timestampHeader, timestampField or idHeader only; set one, or leave it out",
        )


def _jwt(jwt: JwtBearer) -> Iterator[SchemeFinding]:
    own = sorted(_SET_BY_US & jwt.payload.keys())
    if own:
        yield warning("NotUsed", "the payload has claims that are set for each token; leave them out", own)


def _alike(known: KnownScheme) -> Iterator[SchemeFinding]:
    """Several schemes of one type are distinguished by their description only."""
    scheme = known.scheme
    same = [one for one in known.siblings if one.type is scheme.type and one.id != scheme.id]
    if any(one.description == scheme.description for one in same):
        yield info(
            "NotTellable",
            f"another auth scheme of type {scheme.type} has the same description; describe each, "
            "so that people can choose",
        )


__all__ = ["KnownScheme", "SchemeFinding", "inline_findings", "references", "scheme_findings"]
