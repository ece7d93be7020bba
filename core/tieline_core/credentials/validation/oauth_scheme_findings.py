"""Findings about OAuth 2.0 and OAuth 1.0 schemes: URLs, scopes, clients, parameters, contradictions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

from tieline_core.credentials.validation.finding import SchemeFinding, error, info, warning
from tieline_core.oauth.endpoint_urls import url_problem
from tieline_core.resources.auth_schemes import (
    OAuth1,
    OAuth1Endpoint,
    OAuth1Location,
    OAuth2,
    OAuth2Client,
    OAuth2GrantType,
)
from tieline_core.resources.oauth2_dialect import AuthorizationDialect, CallbackSignature, OfflineAccess
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import ACCOUNT_ID, BASE_URL, KeepRule
from tieline_protocol.patterns import is_usable
from tieline_protocol.url_inputs import UrlInputs, host_problem, inputs_for, template_problem, with_samples

_NO_INPUTS: UrlInputs = {}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What a token request has by itself (RFC 6749, section 4; RFC 7636).
_TOKEN_PARAMS = frozenset(
    {
        "grant_type",
        "code",
        "redirect_uri",
        "client_id",
        "client_secret",
        "code_verifier",
        "refresh_token",
        "username",
        "password",
    }
)
# What an authorisation request has by itself.
_AUTHORIZE_PARAMS = frozenset(
    {
        "response_type",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
    }
)


def oauth2_findings(
    oauth2: OAuth2, *, certificate_scheme: bool, inputs: UrlInputs = _NO_INPUTS
) -> Iterator[SchemeFinding]:
    """``certificate_scheme``: whether the System has an auth scheme of type certificate; ``inputs``: the System's."""
    yield from _urls(
        inputs,
        tuple(oauth2.hosts),
        ("tokenUrl", oauth2.token_url),
        ("authorizeUrl", oauth2.authorize_url or ""),
        ("refreshUrl", oauth2.refresh_url or ""),
    )
    code = oauth2.grant.type is OAuth2GrantType.AUTHORIZATION_CODE
    if code and not oauth2.authorize_url:
        yield error(
            "AuthSchemeIncomplete",
            "the grant authorizationCode needs authorizeUrl, where the user is sent; add it",
        )
    if oauth2.authorize_url and not code:
        yield info("NotUsed", f"authorizeUrl is not used with the grant {oauth2.grant.type}")
    yield from _scopes(oauth2, code=code)
    yield from _client(oauth2, code=code)
    yield from _tls(oauth2, certificate_scheme=certificate_scheme)
    yield from _dialect(oauth2)
    yield from _params("additionalTokenParams", oauth2.additional_token_params, _TOKEN_PARAMS)
    yield from _params("additionalAuthorizeParams", oauth2.additional_authorize_params, _AUTHORIZE_PARAMS)


def oauth1_findings(oauth1: OAuth1) -> Iterator[SchemeFinding]:
    """Endpoints may be templated: those are checked when they are filled in."""
    named = (
        ("tempCredentialEndpoint", oauth1.temp_credential_endpoint),
        ("resourceOwnerAuthorizationEndpoint", oauth1.resource_owner_authorization_endpoint),
        ("tokenEndpoint", oauth1.token_endpoint),
    )
    endpoints = [(name, endpoint) for name, endpoint in named if endpoint]
    missing = [name for name, endpoint in named if not endpoint]
    if endpoints and missing:
        yield warning(
            "AuthSchemeIncomplete",
            f"nobody can authorise without {' and '.join(missing)}: add what is missing, or leave out all three "
            "endpoints where people bring their tokens",
            missing,
        )
    yield from _urls(
        _NO_INPUTS, (), *((f"{name}.url", one.url) for name, one in endpoints if "{" not in one.url)
    )
    for name, endpoint in endpoints:
        yield from _parameters(name, endpoint)
    if not oauth1.consumer_key:
        yield warning(
            "ClientMissing", "no consumerKey is given; set it, or put it into each connection's Secret"
        )
    if oauth1.signature_method == "PLAINTEXT" and any(one.url.startswith("http:") for _, one in endpoints):
        yield error(
            "Contradiction",
            "PLAINTEXT sends the secrets as they are, and an endpoint is not https; change one of the two",
        )


def _urls(inputs: UrlInputs, hosts: tuple[str, ...], *urls: tuple[str, str]) -> Iterator[SchemeFinding]:
    for name, url in urls:
        problem = _url_problem(url, inputs, hosts) if url else None
        if problem:
            yield error("UrlWrong", f"{name} {problem}")
        elif url.startswith("http:") and urlsplit(url).hostname not in _LOOPBACK:
            yield warning(
                "UrlNotEncrypted", f"{name} is not https: secrets travel readable for everyone on the way"
            )


def _url_problem(url: str, inputs: UrlInputs, hosts: tuple[str, ...]) -> str | None:
    return template_problem(url, inputs_for(url, inputs, hosts)) or url_problem(with_samples(url))


def _scopes(oauth2: OAuth2, *, code: bool) -> Iterator[SchemeFinding]:
    known = {scope.name for scope in oauth2.scopes}
    unknown = [scope for scope in oauth2.default_scopes if scope not in known]
    if known and unknown:
        yield warning(
            "ScopeMissing", "defaultScopes has scopes that scopes does not list; add them there", unknown
        )
    if code and not known and not oauth2.default_scopes:
        yield info("ScopeMissing", "no scopes are listed, so people cannot choose what a connection may do")
    repeated = [name for name, times in Counter(oauth2.default_scopes).items() if times > 1]
    if repeated:
        yield info("Repeated", "defaultScopes names a scope twice", repeated)


def _client(oauth2: OAuth2, *, code: bool) -> Iterator[SchemeFinding]:
    grant = oauth2.grant
    if oauth2.pkce and not code:
        yield warning(
            "Contradiction",
            f"pkce is for the grant authorizationCode, and this one is {grant.type}; it is not used",
        )
    client: OAuth2Client | None = {
        OAuth2GrantType.AUTHORIZATION_CODE: grant.authorization_code,
        OAuth2GrantType.PASSWORD: grant.password,
        OAuth2GrantType.CLIENT_CREDENTIALS: None,
    }[grant.type]
    if client is None:
        return
    if client.secret_ref and client.credential_id:
        yield warning(
            "Contradiction",
            "the client has a secret of its own and names a credential: its own secret is used",
        )
    if client.organisation_id and not client.credential_id:
        yield warning("Contradiction", "organisationId is given without credentialId; it is not used")
    if not client.secret_ref and not client.credential_id:
        yield warning(
            "ClientSecretMissing", "no client secret is given (secretRef); only public clients do without"
        )
        if code and not oauth2.pkce:
            yield warning(
                "Contradiction", "a public client without pkce can lose its codes to others; set pkce"
            )


def _tls(oauth2: OAuth2, *, certificate_scheme: bool) -> Iterator[SchemeFinding]:
    if oauth2.mtls_enabled and not oauth2.mtls_credential_id and not certificate_scheme:
        yield error(
            "AuthSchemeIncomplete",
            "mtlsEnabled needs a certificate: add an auth scheme of type certificate, or mtlsCredentialId",
        )
    if oauth2.mtls_enabled and oauth2.token_url.startswith("http:"):
        yield error(
            "Contradiction", "mtlsEnabled needs an https tokenUrl; a certificate cannot be shown on http"
        )
    if oauth2.mtls_credential_id and not oauth2.mtls_enabled:
        yield warning(
            "Contradiction", "mtlsCredentialId is given, and mtlsEnabled is not true: no certificate is shown"
        )


def _dialect(oauth2: OAuth2) -> Iterator[SchemeFinding]:
    if oauth2.authorization:
        yield from _authorization(oauth2.authorization)
    kept = [*_kept(oauth2)]
    yield from _keep(kept)
    if any(one.target == BASE_URL for one in kept) and not oauth2.hosts:
        yield warning(
            "HostsMissing",
            "hosts is empty, so a kept baseUrl may lead only to hosts that the URLs of the scheme and the System name; "
            "add others, such as *.shop.example",
        )
    wrong = [one for one in oauth2.hosts if host_problem(one)]
    if wrong:
        yield error(
            "HostsWrong",
            "hosts has a whole top-level domain, or that of a registry such as *.co.uk; name a domain of the provider",
            wrong,
        )
    if oauth2.uninstall and not any(one.target == ACCOUNT_ID for one in kept):
        yield error(
            "AuthSchemeIncomplete",
            "uninstall needs the account of each connection: keep a value as accountId",
        )


def _authorization(authorization: AuthorizationDialect) -> Iterator[SchemeFinding]:
    by_parameters = authorization.offline_access is OfflineAccess.PARAMETERS
    if by_parameters and not authorization.offline_parameters:
        yield error(
            "AuthSchemeIncomplete",
            "offlineAccess is parameters, and offlineParameters is empty; set it, such as access_type=offline",
        )
    if authorization.offline_parameters and not by_parameters:
        yield warning(
            "NotUsed",
            "offlineParameters is used with offlineAccess: parameters only; set that, or leave it out",
        )
    if authorization.grants_per_account:
        yield info(
            "GrantsLimited",
            f"the provider keeps {authorization.grants_per_account} authorisations of one account, and a further one "
            "ends the oldest; connect each account once, or with a client of its own",
        )
    if authorization.callback_signature:
        yield from _callback_signature(authorization.callback_signature, authorization.code_parameter)
    known = authorization.prompts
    unknown = [one for one in authorization.prompt.split() if known and one not in known]
    if unknown:
        yield error("Contradiction", "prompt has values that prompts does not list; add them there", unknown)


def _callback_signature(signature: CallbackSignature, code_parameter: str) -> Iterator[SchemeFinding]:
    if signature.max_age and not signature.timestamp_parameter:
        yield error(
            "AuthSchemeIncomplete",
            "callbackSignature.maxAge needs the parameter with the time; set timestampParameter",
        )
    if unsigned := [one.parameter for one in signature.expect if one.parameter in signature.unsigned]:
        yield error(
            "Contradiction",
            "callbackSignature expects values of parameters that it lists as unsigned; take them off unsigned",
            unsigned,
        )
    needed = {code_parameter, signature.timestamp_parameter}
    if unsigned := [name for name in signature.unsigned if name in needed]:
        yield error(
            "Contradiction",
            "callbackSignature must cover the code and the time; take them off unsigned",
            unsigned,
        )


def _keep(kept: Sequence[KeepRule]) -> Iterator[SchemeFinding]:
    nowhere = [one.source for one in kept if not (one.target or one.variable)]
    if nowhere:
        yield error(
            "AuthSchemeIncomplete", "keep has values without as and variable; set one of them", nowhere
        )
    times = Counter(name for one in kept for name in (one.target, one.variable) if name)
    repeated = [name for name, count in times.items() if count > 1]
    if repeated:
        yield warning("Repeated", "keep sets a value from two places; the later one counts", repeated)
    patterns = [one.pattern for one in kept if one.pattern and not is_usable(one.pattern)]
    if patterns:
        yield error(
            "PatternWrong",
            "keep has patterns that are no regular expressions without look-around and back-references; correct them",
            patterns,
        )


def _kept(oauth2: OAuth2) -> Iterator[KeepRule]:
    dialect = Dialect.of(oauth2.to_dict())
    yield from dialect.callback
    yield from dialect.answer.keep
    yield from dialect.after.keep if dialect.after else ()


def _params(name: str, text: str, reserved: frozenset[str]) -> Iterator[SchemeFinding]:
    clashes = sorted({key for key, _ in parse_qsl(text, keep_blank_values=True)} & reserved)
    if clashes:
        yield warning(
            "Contradiction", f"{name} has parameters that the request sets itself; leave them out", clashes
        )


def _parameters(name: str, endpoint: OAuth1Endpoint) -> Iterator[SchemeFinding]:
    sent = [one for one in endpoint.additional_param_configs if one.location is not OAuth1Location.IGNORE]
    names = Counter((one.location, one.target_name or one.parameter_name) for one in sent)
    repeated = _names(names)
    if repeated:
        yield error(
            "Repeated",
            f"{name} has parameters with one targetName at one location; name each otherwise",
            repeated,
        )
    ignored = [
        one.parameter_name
        for one in endpoint.additional_param_configs
        if one.required and one.location is OAuth1Location.IGNORE
    ]
    if ignored:
        yield warning(
            "Contradiction", f"{name} has parameters that are required, and go nowhere; set location", ignored
        )


def _names(names: Counter[tuple[OAuth1Location, str]]) -> Sequence[str]:
    return [name for (_, name), times in names.items() if times > 1]
