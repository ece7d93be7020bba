"""Credentials that code reads by itself, for what does not speak HTTP: databases, mail, SFTP, vendors' SDKs."""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeVar

from tieline.auth.credential_values import field as value_of
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.snapshot import Connection, Credential
from tieline.errors import CredentialError, CredentialsNotExposedError, MissingCredentialError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Login:
    """A user name and a password (``basic-auth``).

    >>> async def sign_in(ctx: Context) -> str:
    ...     return str((await ctx.credentials("mail")).login)
    >>> run(sign_in)
    "Login(username='orders')"
    """

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AccessToken:
    """An access token of OAuth 2.0.

    >>> async def client(ctx: Context) -> str:
    ...     token = (await ctx.credentials("mail")).access_token
    ...     if refuses(token.value):
    ...         token = (await ctx.credentials("mail", rejected=token)).access_token
    ...     return token.type
    >>> run(client)
    'Bearer'
    """

    value: str = field(repr=False)
    type: str
    """``Bearer``, unless the provider says otherwise."""
    expires_at: datetime | None
    """None where the provider does not say."""
    scopes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClientCertificate:
    """A client certificate, in PEM.

    >>> async def certificate(ctx: Context) -> bool:
    ...     return (await ctx.credentials("mail")).certificate.ca is None
    >>> run(certificate)
    True
    """

    certificate: str
    key: str = field(repr=False)
    ca: str | None
    """The authority to trust, where the credential has one."""


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A key to sign with (``jwt-bearer``): a private key in PEM, or a shared secret.

    >>> async def key(ctx: Context) -> str | None:
    ...     return (await ctx.credentials("mail")).signing_key.key_id
    >>> run(key)
    'k1'
    """

    key: str = field(repr=False)
    key_id: str | None


@dataclass(frozen=True, kw_only=True)
class OAuth1Token:
    """A token of OAuth 1.0, with its consumer.

    >>> async def consumer(ctx: Context) -> str:
    ...     return (await ctx.credentials("mail")).oauth1.consumer_key
    >>> run(consumer)
    'tieline'
    """

    consumer_key: str
    consumer_secret: str = field(repr=False)
    token: str = field(repr=False)
    token_secret: str = field(repr=False)


class Credentials:
    """What a connection holds; see ``Context.credentials``. Its repr shows no value.

    Each property returns the first credential of its type and raises MissingCredentialError where there is none.
    ``credentials["replica"]`` has only the credential with this id.

    >>> async def host(ctx: Context) -> str:
    ...     mail = await ctx.credentials("mail")
    ...     return f"{mail['login'].fields['host']} by {mail!r}"
    >>> run(host)
    "smtp.mail.example by <Credentials of template 'mail': basic-auth, oauth2-token, certificate, jwt-bearer, oauth1>"
    """

    __slots__ = ("_credentials", "base_url", "name", "template")

    def __init__(self, connection: Connection, credentials: Iterable[Credential] | None = None) -> None:
        self.template = connection.template
        """The connection template that they are of."""
        self.name = connection.name
        """The connection's name."""
        self.base_url = connection.base_url
        """The connection's base URL."""
        self._credentials = tuple(connection.credentials if credentials is None else credentials)

    def __getitem__(self, name: str) -> "Credentials":
        """Only the credential with this id in the Connection; raises MissingCredentialError."""
        found = [one for one in self._credentials if name in (one.name, one.id)]
        if not found:
            raise MissingCredentialError(
                template=self.template,
                wanted=f"with the id {name!r}",
                found=[one.name or one.id for one in self._credentials],
            )
        only: Credentials = object.__new__(Credentials)
        only.template, only.name, only.base_url = self.template, self.name, self.base_url
        only._credentials = tuple(found[:1])
        return only

    def __repr__(self) -> str:
        kinds = ", ".join(one.type for one in self._credentials) or "none"
        return f"<Credentials of template {self.template!r}: {kinds}>"

    @property
    def login(self) -> Login:
        """The user name and password of the type ``basic-auth``."""
        return self._first(
            ("basic-auth",),
            lambda one: Login(username=value_of(one, "username"), password=value_of(one, "password")),
        )

    @property
    def secret(self) -> str:
        """The text of the type ``string``: an API key, a shared secret."""
        return self._first(("string",), lambda one: value_of(one, "value"))

    @property
    def content(self) -> bytes:
        """The bytes of the type ``binary``."""
        return self._first(("binary",), lambda one: base64.b64decode(value_of(one, "valueBase64")))

    @property
    def access_token(self) -> AccessToken:
        """The access token of an OAuth 2.0 credential, of whichever grant."""
        return self._first(
            ("oauth2-token", "oauth2-client", "oauth2-password", "oauth2-code"),
            lambda one: AccessToken(
                value=value_of(one, "accessToken"),
                type=str(one.data.get("tokenType") or "Bearer"),
                expires_at=_moment(one.data.get("expiresAt")),
                scopes=tuple(map(str, one.data.get("scopes") or ())),
            ),
        )

    @property
    def certificate(self) -> ClientCertificate:
        """The client certificate of the type ``certificate``."""
        return self._first(
            ("certificate",),
            lambda one: ClientCertificate(
                certificate=value_of(one, "certificate"), key=value_of(one, "key"), ca=one.data.get("ca")
            ),
        )

    @property
    def signing_key(self) -> SigningKey:
        """The key of the type ``jwt-bearer``."""
        return self._first(
            ("jwt-bearer",), lambda one: SigningKey(key=value_of(one, "key"), key_id=one.data.get("keyId"))
        )

    @property
    def oauth1(self) -> OAuth1Token:
        """The token and consumer of the type ``oauth1``."""
        return self._first(
            ("oauth1",),
            lambda one: OAuth1Token(
                consumer_key=str(one.data.get("consumerKey") or one.options.get("consumerKey") or ""),
                consumer_secret=value_of(one, "consumerSecret"),
                token=value_of(one, "oauthToken"),
                token_secret=value_of(one, "oauthTokenSecret"),
            ),
        )

    @property
    def fields(self) -> Mapping[str, str]:
        """The keys that the Secrets have beside those of their types, such as ``host``; the first of a name counts."""
        return MappingProxyType(
            {key: text for one in reversed(self._credentials) for key, text in one.fields.items()}
        )

    def _first(self, kinds: tuple[str, ...], read: Callable[[Credential], T]) -> T:
        for credential in self._credentials:
            if _type_of(credential) in kinds:
                return self._read(credential, read)
        raise MissingCredentialError(
            template=self.template,
            wanted=f"of type {' or '.join(kinds)}",
            found=[one.type for one in self._credentials],
        )

    def _read(self, credential: Credential, read: Callable[[Credential], T]) -> T:
        name = credential.name or credential.id
        if credential.expires_at is not None and credential.expires_at <= datetime.now(UTC):
            problem = "it has expired; give the connection another one"
            raise CredentialError(template=self.template, credential=name, problem=problem)
        try:
            return read(credential)
        except InvalidCredentialError as error:
            raise CredentialError(template=self.template, credential=name, problem=str(error)) from error


async def exposed(
    connection: Connection, tokens: AccessTokens | None, *, rejected: AccessToken | None = None
) -> Credentials:
    """The credentials of a connection that is exposed to code; see ``Context.credentials``."""
    if not connection.exposed:
        raise CredentialsNotExposedError(
            connection.template, connection=connection.name if connection.exposed is False else None
        )
    if tokens is None:
        return Credentials(connection)
    newest = await tokens.ready(connection)
    if rejected is not None and any(
        one.data.get("accessToken") == rejected.value for one in newest.credentials
    ):
        newest = await tokens.instead_of(newest) or newest
    return Credentials(newest)


def _moment(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _type_of(credential: Credential) -> str:
    """The type; on your own machine it may be left out, and follows from the auth scheme."""
    return credential.type or _TYPES.get(credential.scheme, "string")


_TYPES = {
    "basic-auth": "basic-auth",
    "oauth2": "oauth2-token",
    "oauth1": "oauth1",
    "certificate": "certificate",
    "jwt-bearer": "jwt-bearer",
}
