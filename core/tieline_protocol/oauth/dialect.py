"""The dialect of a provider, as an auth scheme describes it. Absent parts mean what the RFCs say.

The models, with the meaning of each field, are in ``tieline_core.resources.oauth2_dialect``. Here is what token
requests and answers are made and read by. It is parsed from plain JSON, because pods have no models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Self

from tieline_protocol.oauth.answers import Condition, conditions
from tieline_protocol.oauth.callback_signature import CallbackSignature
from tieline_protocol.oauth.kept import Hosts, KeepRule
from tieline_protocol.request_limits import seconds_of
from tieline_protocol.url_inputs import variables_of, with_values


def object_of(found: Any) -> Mapping[str, Any]:
    """What is an object, else an empty one."""
    return found if isinstance(found, Mapping) else {}


def _part(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return object_of(given.get(name))


def _names(given: Mapping[str, Any], name: str) -> frozenset[str]:
    return frozenset(map(str, given.get(name) or ()))


def _headers(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in _part(given, "headers").items()}


def _duration(given: Mapping[str, Any], name: str) -> timedelta | None:
    try:
        return timedelta(seconds=seconds_of(str(given[name]))) if given.get(name) else None
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True)
class LongLived:
    """The request for a token that lasts."""

    url: str
    method: str = "GET"
    grant_type: str = ""
    token_parameter: str = "access_token"  # noqa: S105  (a name)
    omit: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RequestDialect:
    """How token requests are written."""

    json: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of parameters by those of RFC 6749."""
    headers: Mapping[str, str] = field(default_factory=dict)
    grant_types: Mapping[str, str] = field(default_factory=dict)
    """Values of grant_type by those of RFC 6749."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Form-encoded parameters by the grant type (of RFC 6749) that they are sent with."""
    omit: frozenset[str] = frozenset()
    long_lived: LongLived | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        names = {
            "client_id": given.get("clientIdParameter"),
            "client_secret": given.get("clientSecretParameter"),
            "code": given.get("codeParameter"),
        }
        types = _part(given, "grantTypes")
        grant_types = {
            "authorization_code": types.get("authorizationCode"),
            "client_credentials": types.get("clientCredentials"),
            "password": types.get("password"),
            "refresh_token": types.get("refresh"),
        }
        long_lived = _part(given, "longLived")
        return cls(
            json=given.get("format") == "json",
            names={name: str(value) for name, value in names.items() if value},
            headers=_headers(given),
            grant_types={name: str(value) for name, value in grant_types.items() if value},
            parameters={
                "authorization_code": str(given.get("codeParameters") or ""),
                "refresh_token": str(given.get("refreshParameters") or ""),
            },
            omit=_names(given, "omit"),
            long_lived=LongLived(
                url=str(long_lived["url"]),
                method=str(long_lived.get("method") or "GET"),
                grant_type=str(long_lived.get("grantType") or ""),
                token_parameter=str(long_lived.get("tokenParameter") or "access_token"),
                omit=_names(long_lived, "omit"),
            )
            if long_lived.get("url")
            else None,
        )


@dataclass(frozen=True, kw_only=True)
class AnswerDialect:
    """Where answers have what."""

    access_token: str = "access_token"  # noqa: S105  (a name)
    refresh_token: str = "refresh_token"  # noqa: S105
    scope: str = "scope"
    scope_separators: str = " ,"
    expires_in: str = "expires_in"
    expires_unit: str = "seconds"
    expires_after: timedelta | None = None
    success: Condition | None = None
    error: str = "error"
    error_description: str = "error_description"
    keep: tuple[KeepRule, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any], *, scopes: Sequence[str]) -> Self:
        """``scopes`` are those that the scheme knows: a comma separates scopes unless one of them has it."""
        separators = " " if any("," in scope for scope in scopes) else " ,"
        success = _part(given, "success")
        return cls(
            access_token=str(given.get("accessToken") or "access_token"),
            refresh_token=str(given.get("refreshToken") or "refresh_token"),
            scope=str(given.get("scope") or "scope"),
            scope_separators=str(given.get("scopeSeparator") or separators),
            expires_in=str(given.get("expiresIn") or "expires_in"),
            expires_unit=str(given.get("expiresUnit") or "seconds"),
            expires_after=_duration(given, "expiresAfter"),
            success=Condition.of(success) if success else None,
            error=str(given.get("error") or "error"),
            error_description=str(given.get("errorDescription") or "error_description"),
            keep=KeepRule.all_of(given.get("keep")),
        )


@dataclass(frozen=True, kw_only=True)
class RefreshDialect:
    """When and how tokens are refreshed."""

    method: str = "POST"
    by_access_token: bool = False
    """Whether the access token itself is sent: the provider has no refresh tokens."""
    token_parameter: str = "refresh_token"  # noqa: S105  (a name)
    omit: frozenset[str] = frozenset()
    retry_on: frozenset[str] = frozenset()
    revoked_on: frozenset[str] = frozenset()
    earliest: timedelta | None = None
    minimum_age: timedelta | None = None
    grace: timedelta | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        return cls(
            method=str(given.get("method") or "POST"),
            by_access_token=given.get("token") == "accessToken",
            token_parameter=str(given.get("tokenParameter") or "refresh_token"),
            omit=_names(given, "omit"),
            retry_on=_names(given, "retryOn"),
            revoked_on=_names(given, "revokedOn"),
            earliest=_duration(given, "earliest"),
            minimum_age=_duration(given, "minimumAge"),
            grace=_duration(given, "graceForOldToken"),
        )


@dataclass(frozen=True, kw_only=True)
class TokenUse:
    """How requests to the API have the access token."""

    place: str = "header"
    name: str = "Authorization"
    prefix: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_place: str = ""
    """Where the client secret is sent too: header, query, or empty for nowhere."""
    secret_name: str = ""
    secret_prefix: str = ""

    def filled_headers(self, *, client_id: str, variables: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """The further headers with their values, and the name of a variable that one lacks (then it is left out)."""
        values = {**variables, "clientId": client_id}
        found, missing = {}, ""
        for name, text in self.headers.items():
            lacking = [one for one in variables_of(text) if not values.get(one)]
            if lacking:
                missing = lacking[0]
            else:
                found[name] = with_values(text, values.__getitem__)
        return found, missing

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        place = str(given.get("in") or "header")
        name = str(given.get("name") or ("Authorization" if place == "header" else "access_token"))
        is_standard = place == "header" and name.lower() == "authorization"
        prefix = given.get("prefix")
        secret = _part(given, "clientSecret")
        return cls(
            place=place,
            name=name,
            prefix=str(prefix) if prefix is not None else "Bearer " if is_standard else "",
            headers=_headers(given),
            secret_place=str(secret.get("in") or "header") if secret.get("name") else "",
            secret_name=str(secret.get("name") or ""),
            secret_prefix=str(secret.get("prefix") or ""),
        )


@dataclass(frozen=True, kw_only=True)
class AfterToken:
    """A request with a new token, whose answer says which account it is for."""

    url: str
    method: str = "GET"
    body: str = ""
    """JSON, or nothing."""
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[KeepRule, ...] = ()
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Rejections:
    """Which answers of the API mean that the access token is not accepted."""

    expired: tuple[Condition, ...] = (Condition(status=401),)
    revoked: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        expired = conditions(given.get("expired"))
        return cls(expired=expired or (Condition(status=401),), revoked=conditions(given.get("revoked")))

    @cached_property
    def reads_bodies_of(self) -> frozenset[int | None]:
        """The statuses whose bodies are looked at; None for any."""
        return frozenset(one.status for one in (*self.expired, *self.revoked) if one.path)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a provider speaks OAuth 2.0."""

    scope_separator: str = " "
    hosts: Hosts = field(default_factory=Hosts)
    request: RequestDialect = field(default_factory=RequestDialect)
    answer: AnswerDialect = field(default_factory=AnswerDialect)
    refresh: RefreshDialect = field(default_factory=RefreshDialect)
    use: TokenUse = field(default_factory=TokenUse)
    after: AfterToken | None = None
    callback: tuple[KeepRule, ...] = ()
    """What is kept of the callback's query."""
    callback_signature: CallbackSignature | None = None
    """The signature that the callback's query must have."""

    @classmethod
    def of(cls, oauth2: Mapping[str, Any], *, base_url: str = "") -> Self:
        """The dialect of an auth scheme's sub-object; ``base_url`` is the System's, whose host is known, too."""
        after = _part(oauth2, "afterToken")
        names = [one.get("name") for one in oauth2.get("scopes") or () if isinstance(one, Mapping)]
        token_url = str(oauth2.get("tokenUrl") or "")
        urls = (
            token_url,
            *(str(oauth2.get(name) or "") for name in ("authorizeUrl", "refreshUrl")),
            str(after.get("url") or ""),
            base_url,
        )
        return cls(
            scope_separator=str(oauth2.get("scopeSeparator") or " "),
            hosts=Hosts.of(map(str, oauth2.get("hosts") or ()), urls, token_url=token_url),
            request=RequestDialect.of(_part(oauth2, "tokenRequest")),
            answer=AnswerDialect.of(
                _part(oauth2, "tokenAnswer"),
                scopes=[str(one) for one in (*names, *(oauth2.get("defaultScopes") or ()))],
            ),
            refresh=RefreshDialect.of(_part(oauth2, "refresh")),
            use=TokenUse.of(_part(oauth2, "token")),
            after=AfterToken(
                url=str(after["url"]),
                method=str(after.get("method") or "GET"),
                body=str(after.get("body") or ""),
                headers=_headers(after),
                keep=KeepRule.all_of(after.get("keep")),
                required=bool(after.get("required")),
            )
            if after.get("url")
            else None,
            callback=KeepRule.all_of(_part(oauth2, "authorization").get("keep")),
            callback_signature=CallbackSignature.of(_part(oauth2, "authorization")),
        )

    @property
    def kept_variables(self) -> frozenset[str]:
        """The connection's variables that an authorisation brings."""
        rules = (*self.callback, *self.answer.keep, *(self.after.keep if self.after else ()))
        return frozenset(rule.variable for rule in rules if rule.variable)


RFC = Dialect()
