"""From a connection's credential to the token request that it stands for.

``resolve`` decides everything that a token request needs, from what caches hold and the values of Secrets:
which grant, where to, as which client, with which certificate. It asks nobody for a token and writes nothing.
Operator and API use the same function over look-ups of their own.
"""

import hashlib
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, cast
from urllib.parse import parse_qsl

from tieline_core.credentials.linker import (
    LinkedCredential,
    Lookups,
    Problem,
    certificate_of,
    client_for,
    scheme_of,
)
from tieline_core.credentials.oauth1_consumers import OAuth1Target, consumer_of
from tieline_core.credentials.tenants import Tenant, tenant_of
from tieline_core.kubernetes.reading import texts_of
from tieline_core.oauth.endpoint_urls import url_problem
from tieline_core.oauth.token_secret_codec import StoredTokens
from tieline_core.objects import ObjectView
from tieline_core.resources import Connection
from tieline_core.resources.auth_schemes import OAuth1, OAuth2, OAuth2Client, OAuth2GrantType
from tieline_core.resources.connections import ConnectionCredential, CredentialType
from tieline_core.resources.parsed_cache import CONNECTION
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import NOTHING, Kept, UnkeepableError, collect
from tieline_protocol.oauth.token_client import Endpoint, MisconfiguredError, client_certificate
from tieline_protocol.oauth.token_response import SecretMatcher
from tieline_protocol.url_inputs import (
    MissingValueError,
    UrlInputError,
    UrlTemplateError,
    has_fixed_domain,
    variables_of,
    with_samples,
    with_values,
)


class Grant(StrEnum):
    """How tokens come about."""

    AUTHORIZATION_CODE = "authorization-code"
    """``inputs`` has ``code`` and perhaps ``state`` and ``callback``."""
    CLIENT_CREDENTIALS = "client-credentials"
    """``inputs`` is empty."""
    PASSWORD = "password"  # noqa: S105  (the grant's name in RFC 6749)
    """``inputs`` has ``username`` and ``password``."""
    TOKEN = "token"  # noqa: S105  (a kind)
    """``inputs`` has ``accessToken``, ``refreshToken``, ``tokenType``, ``expiresAt``, ``scopes``, as given."""
    OAUTH1 = "oauth1"
    """``inputs`` has ``state``, ``oauthToken`` and ``oauthVerifier`` of an authorisation by OAuth 1.0."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """What a credential's tokens need."""

    grant: Grant | None = None
    """None where the credential is none that tokens come from: of another scheme, or a client for others."""
    endpoint: Endpoint | None = None
    """None where a problem stands in the way, and for given tokens whose scheme names no usable endpoint."""
    oauth1: OAuth1Target | None = None
    """The endpoint of OAuth 1.0, where the grant is that and no problem stands in the way."""
    scopes: tuple[str, ...] = ()
    """What to ask for."""
    pkce: bool = False
    """Whether a code is good only with a PKCE verifier."""
    kept: Kept = NOTHING
    """What the connection keeps: of answers before, and of the callback."""
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the grant takes from the credential's own Secret."""
    source: str = ""
    """A fingerprint: tokens with another one come from other inputs and are to be obtained anew.

    For a code and for given tokens it is theirs alone: a new client secret does not undo what they brought.
    """
    asked_as: str = ""
    """A fingerprint of endpoint and client: another one lifts a refusal."""
    certificate_id: str = ""
    """The id of the certificate credential that mutual TLS uses."""
    tenant: Mapping[str, str] = field(default_factory=dict)
    """The values in the scheme's URLs that identify the tenant of the provider."""
    problems: tuple[Problem, ...] = ()
    """Why tokens cannot be asked for; empty when they can."""


_GRANTS = {
    CredentialType.OAUTH2_CODE: (Grant.AUTHORIZATION_CODE, {OAuth2GrantType.AUTHORIZATION_CODE}),
    CredentialType.OAUTH2_CLIENT: (Grant.CLIENT_CREDENTIALS, {OAuth2GrantType.CLIENT_CREDENTIALS}),
    CredentialType.OAUTH2_PASSWORD: (Grant.PASSWORD, {OAuth2GrantType.PASSWORD}),
    CredentialType.OAUTH2_TOKEN: (Grant.TOKEN, set(OAuth2GrantType)),
}
CALLBACK = "callback"
"""The key with the callback's parameters that the scheme keeps, form-encoded."""
_INPUTS = {
    Grant.AUTHORIZATION_CODE: ("code", "state", CALLBACK),
    Grant.CLIENT_CREDENTIALS: (),
    Grant.PASSWORD: ("username", "password"),
    Grant.TOKEN: ("accessToken", "refreshToken", "tokenType", "expiresAt", "scopes"),
    Grant.OAUTH1: ("state", "oauthToken", "oauthVerifier"),
}
_MOST_PARAMETERS = 32
_NEEDED = {Grant.AUTHORIZATION_CODE: ("code",), Grant.PASSWORD: ("username",)}


class CallbackError(Exception):
    """A callback that cannot be read; the message says what to do."""


def callback_parameters(query: str) -> dict[str, str]:
    """The parameters that a provider has sent the user back with. Raises CallbackError."""
    try:
        return dict(parse_qsl(query.removeprefix("?"), max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise CallbackError(
            f"The provider's callback has more than {_MOST_PARAMETERS} parameters; connect again"
        ) from None


async def resolve(
    lookups: Lookups,
    connection: ObjectView,
    item_id: str,
    *,
    client: OAuth2Client | None = None,
    stored: StoredTokens | None = None,
    stand_ins: bool = False,
) -> Resolved:
    """What the tokens of a connection's credential (by its id in the connection) need.

    ``client`` stands in for the one that the scheme names: an authorisation may have been begun with another.
    ``stored`` are the credential's tokens so far. What was kept of answers with them counts if they come from the same
    inputs: another consent begins anew. With ``stand_ins`` the look-ups give any text for the value of a Secret, so
    nothing is said of what a callback has brought.
    """
    read = CONNECTION.of(connection)
    item = next((one for one in read.spec.credentials if one.id == item_id), None)
    if item is None or item.type not in (*_GRANTS, CredentialType.OAUTH1):
        return Resolved()
    scheme = scheme_of(lookups, read, item)
    if scheme is None:
        return _stopped(
            "AuthSchemeNotFound", f'The system has no auth scheme "{item.auth_scheme_config_id}"; add it'
        )
    system = lookups.system(read.namespace, read.spec.system_ref.name) or {}
    tenant = tenant_of(connection["spec"], system.get("spec") or {}, scheme.to_dict())
    if item.type is CredentialType.OAUTH1:
        return await _oauth1(lookups, read, item, scheme.oauth1, tenant) if scheme.oauth1 else Resolved()
    if scheme.oauth2 is None:
        return Resolved()
    grant, fitting = _GRANTS[item.type]
    if scheme.oauth2.grant.type not in fitting:
        if item.type is CredentialType.OAUTH2_CLIENT:
            return Resolved()
        return _stopped(
            "GrantMismatch",
            f"A credential of type {item.type} does not fit the scheme's grant {scheme.oauth2.grant.type}; "
            "change one of the two",
        )
    values = await _values(lookups, read.namespace, item)
    if isinstance(values, Problem):
        return Resolved(grant=grant, problems=(values,))
    request = _Request(lookups, read, item, scheme.oauth2, grant, values, tenant, stored, stand_ins)
    return await request.resolved(client)


async def _oauth1(
    lookups: Lookups, connection: Connection, item: ConnectionCredential, oauth1: OAuth1, tenant: Tenant
) -> Resolved:
    """Tokens are asked for where the Secret holds a state; others are used as they were given."""
    values = await _values(lookups, connection.namespace, item)
    if isinstance(values, Problem):
        return Resolved()
    # A scheme of the connection's own is no administrator's: it may name credentials of this connection only.
    own = connection.name if item.auth_scheme_config else None
    consumer = await consumer_of(lookups, connection.namespace, oauth1, values, scheme_of=own)
    if not values.get("state"):
        # Of what was given whole, only the credential that the scheme names can be wrong here.
        wrong = isinstance(consumer, Problem) and oauth1.credential_id
        return Resolved(problems=(cast(Problem, consumer),) if wrong else ())
    inputs = {key: values[key] for key in _INPUTS[Grant.OAUTH1] if values.get(key)}
    problems = []
    missing = [key for key in _INPUTS[Grant.OAUTH1] if key not in inputs]
    if missing:
        problems.append(Problem("SecretKeyMissing", f"The Secret lacks {', '.join(missing)}; add it"))
    if oauth1.token_endpoint is None:
        message = "The auth scheme has no tokenEndpoint, where tokens are issued; add it"
        problems.append(Problem("AuthSchemeIncomplete", message))
    if isinstance(consumer, Problem):
        problems.append(consumer)
    target, asked_as = None, ""
    if oauth1.token_endpoint and not isinstance(consumer, Problem):
        target = OAuth1Target(endpoint=oauth1.token_endpoint, consumer=consumer)
        asked_as = _fingerprint(target.endpoint.to_dict(), consumer.key, consumer.secret, consumer.method)
    return Resolved(
        grant=Grant.OAUTH1,
        oauth1=None if problems else target,
        inputs=inputs,
        source=tenant.marked(_fingerprint(Grant.OAUTH1, inputs, "")),
        asked_as=asked_as,
        tenant=tenant.identifying,
        problems=tuple(problems),
    )


@dataclass
class _Request:
    """One credential on its way to a token request."""

    lookups: Lookups
    connection: Connection
    item: ConnectionCredential
    oauth2: OAuth2
    grant: Grant
    values: Mapping[str, str]
    tenant: Tenant
    stored: StoredTokens | None = None
    stand_ins: bool = False
    problems: list[Problem] = field(default_factory=list)

    async def resolved(self, chosen: OAuth2Client | None) -> Resolved:
        own = self.grant is Grant.CLIENT_CREDENTIALS
        inputs = {key: self.values[key] for key in _INPUTS[self.grant] if self.values.get(key)}
        self._check_inputs(inputs)
        system = self.lookups.system(self.connection.namespace, self.connection.spec.system_ref.name)
        system_spec = system["spec"] if system else {}
        dialect = Dialect.of(self.oauth2.to_dict(), base_url=system_spec.get("templateBaseUrl") or "")
        from_callback = self._kept_of_callback(dialect, inputs)
        client_id, client_secret, urls = await self._client(chosen)
        tls, certificate_id, certificate_mark = await self._certificate()
        if not client_id:
            self._add("ClientMissing", "No client id is given; set clientId in the scheme or in the Secret")
        if own and not client_secret:
            self._add("SecretKeyMissing", "The Secret lacks clientSecret; add it")
        additional = (own and self.values.get("additionalParams")) or self.oauth2.additional_token_params
        scopes = tuple((own and self.values.get("scopes", "").split()) or self.oauth2.default_scopes)
        token_template = (own and self.values.get("tokenUrl")) or self.oauth2.token_url
        refresh_template = self.oauth2.refresh_url or ""
        authentication = cast(Literal["header", "body", "both", "none"], self.oauth2.client_authentication)
        asked_as = _fingerprint(
            self._before_answers(token_template),
            self._before_answers(refresh_template),
            client_id,
            client_secret,
            authentication,
            additional,
            certificate_mark,
            self.oauth2.hosts,
            *(
                part.to_dict()
                for part in (
                    self.oauth2.token_request,
                    self.oauth2.token_answer,
                    self.oauth2.refresh,
                    self.oauth2.after_token,
                )
                if part
            ),
        )
        once = self.grant in (Grant.AUTHORIZATION_CODE, Grant.TOKEN)
        source = self.tenant.marked(_fingerprint(self.grant, inputs, "" if once else (asked_as, scopes)))
        is_same = self.stored is not None and self.stored.source == source
        kept = from_callback.merged(self.stored.tokens.kept) if self.stored and is_same else from_callback
        self.tenant = self.tenant.with_kept(kept)
        unread = frozenset(rule.variable for rule in dialect.callback if self.stand_ins)
        token_url = self._url("tokenUrl", token_template, allowed=urls, brought=unread)
        refresh_url = self._url("refreshUrl", refresh_template, allowed=urls, brought=dialect.kept_variables)
        self._check_urls(dialect, allowed=urls)
        endpoint = Endpoint(
            token_url=token_url,
            refresh_url=refresh_url,
            client_id=client_id,
            client_secret=client_secret,
            authentication=authentication,
            additional_params=additional,
            tls=tls,
            dialect=dialect,
            variables=self.tenant.variables,
            values=self.tenant,
        )
        problems = tuple(self.problems)
        if self.grant is Grant.TOKEN and not inputs.get("refreshToken"):
            # Nothing can be refreshed, so nothing has to be right for that.
            problems = tuple(problem for problem in problems if problem.reason == "SecretKeyMissing")
            endpoint_found = None if self.problems else endpoint
        else:
            endpoint_found = None if problems else endpoint
        return Resolved(
            grant=self.grant,
            endpoint=endpoint_found,
            scopes=scopes,
            pkce=self.oauth2.pkce and self.grant is Grant.AUTHORIZATION_CODE,
            kept=kept,
            inputs=inputs,
            source=source,
            asked_as=asked_as,
            tenant=self.tenant.identifying,
            certificate_id=certificate_id,
            problems=problems,
        )

    def _before_answers(self, template: str) -> str:
        """A URL with the values that no answer has brought: fingerprints stay the same when one brings others."""
        values = {**self.tenant.defaults, **self.tenant.own}
        return with_values(template, lambda name: values.get(name) or f"{{{name}}}")

    def _kept_of_callback(self, dialect: Dialect, inputs: Mapping[str, str]) -> Kept:
        if not dialect.callback or CALLBACK not in inputs or self.stand_ins:
            return NOTHING
        secrets = SecretMatcher([inputs.get(name, "") for name in ("code", "state")])
        try:
            given = callback_parameters(inputs[CALLBACK])
            return collect(dialect.callback, given.get, hosts=dialect.hosts, secrets=secrets)
        except CallbackError as error:
            self._add("CallbackWrong", str(error))
        except UnkeepableError as error:
            self._add("CallbackWrong", f"The provider's callback cannot be used: {error}, and connect again")
        return NOTHING

    def _check_inputs(self, inputs: Mapping[str, str]) -> None:
        missing = [key for key in _NEEDED.get(self.grant, ()) if key not in inputs]
        if self.grant is Grant.TOKEN and not {"accessToken", "refreshToken"} & inputs.keys():
            missing.append("accessToken or refreshToken")
        if missing:
            self._add("SecretKeyMissing", f"The Secret lacks {', '.join(missing)}; add it")

    async def _client(self, chosen: OAuth2Client | None) -> tuple[str, str, frozenset[str] | None]:
        """The client's id and secret, and where they may be sent to (None: anywhere)."""
        own_id, own_secret = self.values.get("clientId", ""), self.values.get("clientSecret", "")
        grant = self.oauth2.grant
        if grant.type is OAuth2GrantType.CLIENT_CREDENTIALS:
            return own_id, own_secret, None
        client = chosen or grant.authorization_code or grant.password or OAuth2Client()
        namespace = self.connection.namespace
        if client.secret_ref:
            stored = await self.lookups.secret(namespace, client.secret_ref.name)
            values = texts_of(stored or {})
            if not values.get("clientSecret"):
                self._add(
                    "SecretNotFound",
                    f'Secret "{client.secret_ref.name}" of the scheme has no clientSecret; create it with type '
                    "tieline.dev/credential",
                )
            return client.client_id or values.get("clientId", ""), values.get("clientSecret", ""), None
        if client.credential_id:
            found = client_for(self.lookups, self.connection, self.item, client, chosen=chosen is not None)
            if isinstance(found, Problem):
                self.problems.append(found)
                return client.client_id, "", None
            return await self._linked_client(found, client)
        return client.client_id or own_id, own_secret, None

    async def _linked_client(
        self, found: LinkedCredential, client: OAuth2Client
    ) -> tuple[str, str, frozenset[str] | None]:
        values = await _values(self.lookups, found.namespace, found.item)
        if isinstance(values, Problem) or not values.get("clientSecret"):
            self._add(
                "SecretNotFound",
                f'Credential "{client.credential_id}" holds no client secret; its owner adds it',
            )
            return client.client_id, "", found.urls
        # The id belongs to the secret: what the scheme says is for where the Secret says nothing.
        return values.get("clientId") or client.client_id, values["clientSecret"], found.urls

    def _check_urls(self, dialect: Dialect, *, allowed: frozenset[str] | None) -> None:
        """Finds what is wrong with the further URLs. They get their values when the token's answer is known."""
        longer, after = dialect.request.long_lived, dialect.after
        brought = frozenset(rule.variable for rule in (*dialect.callback, *dialect.answer.keep))
        if longer:
            self._url("tokenRequest.longLived.url", longer.url, allowed=allowed, brought=brought)
        if after:
            self._url("afterToken.url", after.url, allowed=None, brought=brought)

    def _url(
        self,
        name: str,
        template: str,
        *,
        allowed: frozenset[str] | None,
        brought: frozenset[str] = frozenset(),
    ) -> str:
        """A URL of the scheme with its values, or as it stands where there is a problem, which is then known.

        It stays as it stands, too, while it lacks no values but those of the variables that answers bring.
        """
        if not template:
            return ""
        is_filled = True
        try:
            url = self.tenant.url(template)
        except MissingValueError as error:
            values = self.tenant.variables
            if not all(values.get(one) or one in brought for one in variables_of(template)):
                self._add("VariableMissing", f"{name}: {error}")
                return template
            url, is_filled = with_samples(template), False
        except UrlTemplateError as error:
            self._add("UrlWrong", f"{name}: {error}")
            return template
        except UrlInputError as error:
            self._add("VariableInvalid", f"{name}: {error}")
            return template
        problem = url_problem(url)
        # Values in front of a fixed domain stay in the domain that was granted, whatever they are.
        granted = allowed is None or url in allowed or (template in allowed and has_fixed_domain(template))
        if problem:
            self._add("UrlWrong", f"{name} {problem}")
        elif not granted:
            where = ", ".join(sorted(allowed or ())) or "no URL yet"
            self._add(
                "UrlNotGranted",
                f"{name} is not one that the credential's owner has granted: its secret may be sent to "
                f"{where} only; correct the URL, or have an administrator add the auth scheme to the "
                "credential's system",
            )
        return url if is_filled else template

    async def _certificate(self) -> tuple[ssl.SSLContext | None, str, str]:
        """The TLS context, the certificate credential's id, and what tells it from another one."""
        own = self.grant is Grant.CLIENT_CREDENTIALS
        enabled = self.oauth2.mtls_enabled or (own and self.values.get("mTLSEnabled") == "true")
        if not enabled:
            return None, "", ""
        named = (own and self.values.get("mTLSCredentialId")) or self.oauth2.mtls_credential_id
        found = certificate_of(self.lookups, self.connection, self.item, named=named)
        if isinstance(found, Problem):
            self.problems.append(found)
            return None, "", ""
        values = await _values(self.lookups, found.namespace, found.item)
        if isinstance(values, Problem):
            self._add("CertificateNotFound", f"The client certificate for mutual TLS: {values.message}")
            return None, found.id, ""
        parts = [values.get(key, "") for key in ("certificate", "key", "ca")]
        try:
            tls = client_certificate(certificate=parts[0], key=parts[1], ca=parts[2])
        except MisconfiguredError as error:
            self._add("CertificateWrong", str(error))
            return None, found.id, ""
        return tls, found.id, _fingerprint(parts)

    def _add(self, reason: str, message: str) -> None:
        self.problems.append(Problem(reason, message))


def _stopped(reason: str, message: str) -> Resolved:
    return Resolved(problems=(Problem(reason, message),))


async def _values(lookups: Lookups, namespace: str, item: ConnectionCredential) -> dict[str, str] | Problem:
    name = item.secret_ref.name if item.secret_ref else ""
    data = await lookups.secret(namespace, name) if name else None
    if data is None:
        return Problem(
            "SecretNotFound",
            f'Secret "{name}" does not exist, or is not of type tieline.dev/credential; create it',
        )
    return texts_of(data)


def _fingerprint(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
