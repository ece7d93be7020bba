"""One state of the environment's configuration, as the API's internal endpoint describes it."""

import base64
import binascii
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import unquote

from tieline.configuration.schedule_controls import ScheduleControls, parse_schedule_controls
from tieline.configuration.secret_environment import passwords_in, secrets_in
from tieline.errors import (
    ConfigurationError,
    DynamicTemplateError,
    NoConnectionOfUserError,
    TemplateNotLinkedError,
    UnknownTemplateError,
)
from tieline.telemetry.redaction import Redactor
from tieline_protocol import signatures
from tieline_protocol.limit_answers import USUAL, LimitAnswers
from tieline_protocol.list_dialects import NO_DIALECTS, ListDialects
from tieline_protocol.oauth.dialect import Rejections
from tieline_protocol.request_limits import RequestLimits
from tieline_protocol.secret_fields import is_secret
from tieline_protocol.signatures import InvalidSignatureSchemeError, SignatureScheme

P = TypeVar("P")
# What a credential's data may hold that is no secret; anything else is taken for one.
_PUBLIC_FIELDS = frozenset(
    {
        "additionalParams",
        "ca",
        "certificate",
        "clientId",
        "consumerKey",
        "expiresAt",
        "keyId",
        "mTLSCredentialId",
        "mTLSEnabled",
        "scopes",
        "tokenType",
        "tokenUrl",
    }
)
_USER_NAME = "username"
_REJECTED_BY_STATUS = Rejections()
GRAPHQL_PATH = "/graphql"


def _frozen() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Credential:
    """A credential and the auth scheme it is for. ``data`` never appears in the repr."""

    id: str
    type: str
    scheme: str
    """The auth scheme's type, such as ``api-key``."""
    options: Mapping[str, Any]
    """The scheme's sub-object, such as ``{"name": "X-API-Key", "in": "header"}``."""
    data: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None = None
    """When the platform deletes it: from then on nothing is sent with it."""
    name: str = ""
    """Its id in the Connection's manifest, where it is exposed to code."""
    fields: Mapping[str, str] = field(default_factory=_frozen, repr=False)
    """What else its Secret holds, where it is exposed to code. Hosts, ports and user names among it are no secrets."""
    not_secret: frozenset[str] = frozenset()
    """Further fields that are no secrets, as the Secret's owner declared."""

    def secrets(self) -> Iterator[str | bytes]:
        """The values in ``data`` that must never be written anywhere."""
        for name, value in self.data.items():
            if name in _PUBLIC_FIELDS or name == _USER_NAME or not isinstance(value, str):
                continue
            yield value
            if name == "valueBase64":
                yield from _decoded(value)
        for name, value in self.fields.items():
            # A host or a database may be given as a URL with a password.
            yield from (secrets_in if is_secret(name, self.not_secret) else passwords_in)(value)
        yield from _client_secrets(self.options)
        yield from self._bare_keys()
        user, password = self.data.get(_USER_NAME), self.data.get("password")
        if isinstance(user, str) and isinstance(password, str):
            # As basic authentication sends them: their base64 is one text.
            yield f"{user}:{password}"
            if not password:
                # Keys are sent as user names, too.
                yield user

    def _bare_keys(self) -> Iterator[str]:
        """A signing key without the prefix that its sender writes before it."""
        value = self.data.get("value")
        if self.scheme != "hmac" or not isinstance(value, str):
            return
        try:
            prefix = self.signature_scheme.key_prefix
        except InvalidSignatureSchemeError:
            return
        if prefix and value.startswith(prefix):
            yield value.removeprefix(prefix)
        if self.signature_scheme.algorithm == "basic":
            yield base64.b64encode(value.encode()).decode()
            yield value.partition(":")[2]

    @cached_property
    def signature_scheme(self) -> SignatureScheme:
        """How requests are signed, where the scheme is ``hmac``; raises InvalidSignatureSchemeError."""
        return signatures.parse(self.options)

    @cached_property
    def rejections(self) -> Rejections | None:
        """Which answers reject its access token; None for a credential that has none."""
        if self.scheme != "oauth2":
            return None
        given = self.options.get("rejections")
        return Rejections.of(given) if isinstance(given, Mapping) else _REJECTED_BY_STATUS


def has_expired(credential: Credential, now: datetime) -> bool:
    """Whether the platform has deleted it, or is about to."""
    return credential.expires_at is not None and credential.expires_at <= now


def by_scheme(credentials: Iterable[Credential]) -> list[list[Credential]]:
    """The credentials of each auth scheme: several of one scheme are alternatives, while a secret is rotated."""
    groups: dict[str, list[Credential]] = {}
    for one in credentials:
        scheme = json.dumps([one.scheme, one.options], sort_keys=True, default=str)
        groups.setdefault(scheme, []).append(one)
    return list(groups.values())


def without_replaced(credentials: Sequence[Credential], now: datetime) -> list[Credential]:
    """The credentials without those that have expired while another one for the same auth scheme has not."""
    replaced = {
        id(one)
        for group in by_scheme(credentials)
        if not all(has_expired(one, now) for one in group)
        for one in group
        if has_expired(one, now)
    }
    return [one for one in credentials if id(one) not in replaced]


def client_id_of(options: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The client's id of an OAuth 2.0 credential: its own, or else that of the scheme's grant."""
    grant = options.get("grant")
    named = grant.get(str(grant.get("type"))) if isinstance(grant, Mapping) else None
    found = data.get("clientId") or (named.get("clientId") if isinstance(named, Mapping) else "")
    return str(found or "")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where a template leads, and the credentials for it in the order they are applied."""

    id: str
    name: str
    template: str
    base_url: str
    credentials: tuple[Credential, ...]
    limits: RequestLimits | None = None
    """What the system allows; None: requests are sent at once."""
    limit_answers: LimitAnswers = USUAL
    """Which of its answers mean that there are too many requests."""
    lists: ListDialects = NO_DIALECTS
    """How its lists come in pages."""
    graphql_path: str = GRAPHQL_PATH
    """Where it answers GraphQL, below the base URL."""
    exposed: bool | None = None
    """Whether code may read the credentials: None where the template does not ask for it, False where the connection
    is not open to code."""
    refused: bool = False
    """Whether the platform knows that the system refuses the credentials."""
    fingerprint: str = ""
    """Names the credentials in reports about them."""
    system: str = ""
    """The name of the system; empty if unknown."""

    @cached_property
    def alternatives(self) -> Sequence[Sequence[Credential]]:
        """The credentials of each auth scheme, also those that have expired."""
        return by_scheme(self.credentials)

    @cached_property
    def signature_schemes(self) -> Sequence[tuple[SignatureScheme, Credential]]:
        """The credentials that verify signatures, with their schemes, also those that have expired."""
        found = []
        for credential in self.credentials:
            if credential.scheme == "hmac":
                try:
                    found.append((credential.signature_scheme, credential))
                except InvalidSignatureSchemeError:
                    continue  # what is wrong with it is reported when a request is verified
        return found

    @cached_property
    def verify_tokens(self) -> Sequence[Credential]:
        """The credentials of type ``secret`` that challenges alone show, such as Meta's verify token in the query."""
        places = [
            (challenge.proof_in.kind, challenge.proof_in.name)
            for scheme, _ in self.signature_schemes
            for challenge in scheme.challenges
            if challenge.proof == "secret" and challenge.proof_in
        ]
        return [
            one
            for one in self.credentials
            if one.scheme == "secret" and (one.options.get("in"), one.options.get("name")) in places
        ]

    def secrets(self) -> Iterator[str | bytes]:
        """The values that must never be written anywhere: the credentials', and a password in the URL."""
        for credential in self.credentials:
            yield from credential.secrets()
        authority = self.base_url.partition("://")[2].partition("/")[0]
        if password := authority.rpartition("@")[0].partition(":")[2]:
            yield password
            yield unquote(password)


@dataclass(frozen=True, kw_only=True)
class Template:
    """A connection template of the environment."""

    id: str
    dynamic: bool
    linked: bool


@dataclass(frozen=True, kw_only=True)
class EndUser:
    """A person (or tenant) of the customer's own application.

    >>> async def greet(ctx: Context) -> str:
    ...     user = ctx.activation.user
    ...     return f"Hello {user.display_name} ({user.external_id})" if user else "Hello"
    >>> run(greet, user="ann")
    'Hello Ann (ann)'
    """

    id: str
    external_id: str
    """The user's id in that application."""
    display_name: str


@dataclass(frozen=True, kw_only=True)
class Activation:
    """Whom a run is for: a user, or (the static activation) nobody in particular.

    >>> async def whose(ctx: Context) -> bool:
    ...     return ctx.activation.user is not None
    >>> run(whose), run(whose, user="ann")
    (False, True)
    """

    id: str
    user: EndUser | None
    variables: Mapping[str, Any]
    connections: Mapping[str, Connection] = field(repr=False)
    """The user's own connections, by the names of the dynamic templates."""
    changes: Mapping[str, str] = field(default_factory=_frozen, repr=False)
    """What it is made of, for the log: texts of changes by objects' names."""

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the secrets of the user's connections; made when the first line of a run is written."""
        redactor = Redactor()
        learn_secrets(redactor, "activation", self.connections.values())
        return redactor


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that runs read from the configuration. Replaced as a whole, never changed."""

    variables: Mapping[str, Any] = field(default_factory=_frozen)
    variables_schema: Mapping[str, Any] = field(default_factory=_frozen)
    """The project's JSON Schema of variables."""
    connections: Mapping[str, Connection] = field(default_factory=_frozen)
    templates: Mapping[str, Template] = field(default_factory=_frozen)
    public_url: str = ""
    activation_id: str = ""
    changes: Mapping[str, str] = field(default_factory=_frozen)
    """What it is made of, for the log: texts of changes by objects' names; empty for a file."""
    users: Mapping[str, Activation] = field(default_factory=_frozen)
    """Users' activations by external id, where they come with the configuration (a file on your machine)."""
    keep_inputs: bool = False
    """Whether the run history keeps the inputs of direct webhooks and schedules."""
    activity_seconds: float | None = None
    """How often the platform wants to know whether the pod works; None where it does not."""
    schedules: ScheduleControls = field(default_factory=ScheduleControls)
    file: str = ""
    """The name of the connections file where it is from one."""

    @cached_property
    def static(self) -> Activation:
        """The activation of runs that are for no user."""
        return Activation(id=self.activation_id, user=None, variables=self.variables, connections=_frozen())

    def connection(self, template: str, activation: Activation | None = None) -> Connection:
        """The connection of a template's name: the activation's own for a dynamic template.

        Raises UnknownTemplateError, DynamicTemplateError, NoConnectionOfUserError or TemplateNotLinkedError.
        """
        if activation is not None and (connection := activation.connections.get(template)):
            return connection
        if connection := self.connections.get(template):
            return connection
        known = self.templates.get(template)
        if known is None:
            raise UnknownTemplateError(template, {*self.templates, *self.connections}, file=self.file)
        if not known.dynamic:
            raise TemplateNotLinkedError(template, file=self.file)
        if activation is not None and activation.user is not None:
            raise NoConnectionOfUserError(template, activation.user.external_id, file=self.file)
        raise DynamicTemplateError(template)


def learn_secrets(redactor: Redactor, source: str, connections: Collection[Connection]) -> None:
    """Have ``redactor`` know the secrets of ``connections``."""
    redactor.replace(source, (secret for connection in connections for secret in connection.secrets()))


def _activity_seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def parse(body: Any) -> Snapshot:
    """The Snapshot of a parsed JSON body; raises ConfigurationError naming what is of another shape.

    A connection that lacks something is kept: it fails when it is used, and the others go on working.
    """
    if not isinstance(body, dict):
        raise ConfigurationError("The configuration is not a JSON object")
    return Snapshot(
        variables=MappingProxyType(_mapping(body, "variables")),
        variables_schema=MappingProxyType(_mapping(body, "variablesSchema")),
        connections=_connections(body),
        templates={
            name: Template(
                id=str(value.get("id", "")),
                dynamic=bool(value.get("dynamic", False)),
                linked=bool(value.get("linked", False)),
            )
            for name, value in _mapping(body, "templates").items()
            if isinstance(value, dict)
        },
        public_url=str(body.get("publicUrl") or ""),
        activation_id=str(body.get("activationId") or ""),
        changes=_changes(body),
        users={
            name: _configured_activation(name, _as_mapping(value or {}, f"users.{name}"))
            for name, value in _mapping(body, "users").items()
        },
        keep_inputs=_mapping(body, "settings").get("keepInputs") is True,
        activity_seconds=_activity_seconds(_mapping(body, "settings").get("activitySeconds")),
        schedules=parse_schedule_controls(body.get("schedules")),
    )


def _configured_activation(external_id: str, body: dict[str, Any]) -> Activation:
    """An activation that stands under its user's external id."""
    return parse_activation({**body, "user": {**_mapping(body, "user"), "externalId": external_id}})


def parse_activation(body: Any) -> Activation:
    """A user's activation as the internal endpoint describes it; raises ConfigurationError."""
    if not isinstance(body, dict):
        raise ConfigurationError("The activation is not a JSON object")
    user = _mapping(body, "user")
    return Activation(
        id=str(body.get("id") or ""),
        user=EndUser(
            id=str(user.get("id") or ""),
            external_id=str(user.get("externalId") or ""),
            display_name=str(user.get("displayName") or ""),
        ),
        variables=MappingProxyType(_mapping(body, "variables")),
        connections=_connections(body),
        changes=_changes(body),
    )


def _changes(body: dict[str, Any]) -> Mapping[str, str]:
    """For the log alone: of another shape they are left out, and all else is served with."""
    found = body.get("changes")
    if not isinstance(found, dict):
        return _frozen()
    return MappingProxyType({name: change for name, change in found.items() if isinstance(change, str)})


def _connections(body: dict[str, Any]) -> dict[str, Connection]:
    return {
        name: _connection(name, _as_mapping(value, f"connections.{name}"))
        for name, value in _mapping(body, "connections").items()
    }


def _connection(template: str, body: dict[str, Any]) -> Connection:
    where = f"connections.{template}"
    credentials = body.get("credentials") or []
    if not isinstance(credentials, list):
        raise ConfigurationError(f"{where}.credentials is not a list")
    return Connection(
        id=str(body.get("id", "")),
        name=str(body.get("name", "")),
        template=template,
        base_url=str(body.get("baseUrl") or ""),
        limits=_parsed(RequestLimits.parse, where, "limits", body),
        limit_answers=_parsed(LimitAnswers.parse, where, "limits", body) or USUAL,
        lists=_parsed(ListDialects.parse, where, "lists", body) or NO_DIALECTS,
        graphql_path=str(body.get("graphqlPath") or GRAPHQL_PATH),
        refused=body.get("refused") is True,
        fingerprint=str(body.get("fingerprint") or ""),
        system=_system_name(body),
        exposed=bool(body["exposeToCode"]) if "exposeToCode" in body else None,
        credentials=tuple(
            parse_credential(_as_mapping(item, f"{where}.credentials[{index}]"))
            for index, item in enumerate(credentials)
        ),
    )


def _system_name(body: Mapping[str, Any]) -> str:
    system = body.get("system")
    return str(system.get("name") or "") if isinstance(system, Mapping) else ""


def _parsed(
    parse: Callable[[Mapping[str, Any]], P], where: str, name: str, body: Mapping[str, Any]
) -> P | None:
    """A part of a connection; None where it has none."""
    content = body.get(name)
    if not content:
        return None
    try:
        return parse(_as_mapping(content, f"{where}.{name}"))
    except ValueError as error:
        raise ConfigurationError(f"{where}.{name}: {error}") from None


def parse_credential(body: Mapping[str, Any]) -> Credential:
    """A connection's credential; raises ConfigurationError."""
    scheme = _mapping(body, "authScheme")
    kind = str(scheme.get("type") or "")
    return Credential(
        id=str(body.get("id", "")),
        type=str(body.get("type") or ""),
        scheme=kind,
        options=_mapping(scheme, _sub_object(kind)),
        data=_mapping(body, "data"),
        expires_at=_moment(body.get("expiresAt")),
        name=str(body.get("name") or ""),
        fields={key: value for key, value in _mapping(body, "fields").items() if isinstance(value, str)},
        not_secret=frozenset(name for name in body.get("notSecret") or () if isinstance(name, str)),
    )


def _sub_object(scheme: str) -> str:
    """The key of a scheme type's sub-object: ``api-key`` has ``apiKey``."""
    first, *rest = scheme.split("-")
    return first + "".join(word.capitalize() for word in rest)


def _moment(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found and found.tzinfo else None


def _mapping(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    return _as_mapping(body.get(key) or {}, key)


def _as_mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"The configuration's {where} is not an object")
    return value


def _client_secrets(options: Mapping[str, Any]) -> Iterator[str]:
    """Those of a scheme in a connections file; schemes that the API sends have none."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _client_secrets(value)
        elif name in ("clientSecret", "consumerSecret") and isinstance(value, str):
            yield value


def _decoded(value: str) -> Iterator[str | bytes]:
    try:
        content = base64.b64decode(value, validate=True)
    except binascii.Error:
        return
    try:
        yield content.decode()
    except UnicodeDecodeError:
        yield content
