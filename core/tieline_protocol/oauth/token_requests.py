"""Token requests (RFC 6749, section 3.2) as they are sent, in a provider's dialect. No I/O here."""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol
from urllib.parse import parse_qsl, quote_plus, urlencode

import aiohttp

from tieline_protocol.oauth.dialect import RFC, Dialect, LongLived
from tieline_protocol.oauth.kept import Kept
from tieline_protocol.oauth.token_answers import MisconfiguredError
from tieline_protocol.url_inputs import UrlInputError

FORM, JSON = "application/x-www-form-urlencoded", "application/json"


class Values(Protocol):
    """The values of the variables in a scheme's URLs and headers."""

    @property
    def variables(self) -> Mapping[str, str]:
        """All of them, by name."""

    def with_kept(self, kept: Kept) -> "Values":
        """With what was kept of answers, too."""

    def url(self, template: str) -> str:
        """A URL with its values. Raises UrlInputError for a value that is missing, or may not be there."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where tokens come from, and as whom they are asked for."""

    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    refresh_url: str = ""
    """Where tokens are refreshed, when that is not ``token_url``."""
    authentication: Literal["header", "body", "both", "none"] = "header"
    additional_params: str = field(default="", repr=False)
    """Form-encoded, sent with every request."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """For mutual TLS; see ``client_certificate``."""
    dialect: Dialect = RFC
    variables: Mapping[str, str] = field(default_factory=dict)
    """The connection's variables, which headers of requests may have."""
    values: Values | None = field(default=None, repr=False)
    """What fills the further URLs; None where they have no variables."""

    def with_kept(self, kept: Kept) -> "Endpoint":
        """With the values that an answer has brought."""
        if self.values is None:
            return self
        values = self.values.with_kept(kept)
        return replace(self, values=values, variables=values.variables)

    def filled(self, url: str, name: str) -> str:
        """A URL of the scheme, by the name of its field, with its values. Raises MisconfiguredError."""
        if self.values is None:
            return url
        try:
            return self.values.url(url)
        except UrlInputError as error:
            raise MisconfiguredError(f"{name}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it is sent."""

    url: str
    method: str = "POST"
    body: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def token_request(
    endpoint: Endpoint, grant: str, *, scopes: Sequence[str], params: Mapping[str, str]
) -> Request:
    """The request for a grant type of RFC 6749. A public client (without secret) names itself (section 3.2.1)."""
    dialect, refresh = endpoint.dialect.request, endpoint.dialect.refresh
    is_refresh = grant == "refresh_token"
    names = {**dialect.names, "refresh_token": refresh.token_parameter}
    given = {"grant_type": dialect.grant_types.get(grant, grant)}
    given |= {names.get(name, name): value for name, value in params.items() if value}
    if scopes:
        given["scope"] = endpoint.dialect.scope_separator.join(scopes)
    client, headers = _client(endpoint, names)
    given |= client
    for text in (dialect.parameters.get(grant, ""), endpoint.additional_params):
        for name, value in parse_qsl(text, keep_blank_values=True):
            given.setdefault(name, value)
    omitted = dialect.omit | (refresh.omit if is_refresh else frozenset())
    given = {name: value for name, value in given.items() if name not in omitted}
    headers |= dialect.headers
    url = endpoint.token_url
    if is_refresh and endpoint.refresh_url:
        url = endpoint.filled(endpoint.refresh_url, "refreshUrl")
    if is_refresh and refresh.method == "GET":
        return Request(url=_with_query(url, given), method="GET", headers=headers)
    if dialect.json:
        return Request(url=url, body=json.dumps(given), headers={**headers, "Content-Type": JSON})
    return Request(url=url, body=urlencode(given), headers={**headers, "Content-Type": FORM})


def long_lived_request(endpoint: Endpoint, wanted: LongLived, *, token: str) -> Request:
    """The request that exchanges a short-lived token."""
    names = endpoint.dialect.request.names
    given = {
        "grant_type": wanted.grant_type,
        names.get("client_id", "client_id"): endpoint.client_id,
        names.get("client_secret", "client_secret"): endpoint.client_secret,
        wanted.token_parameter: token,
    }
    given = {name: value for name, value in given.items() if value and name not in wanted.omit}
    headers = {"Accept": JSON, **endpoint.dialect.request.headers}
    url = endpoint.filled(wanted.url, "tokenRequest.longLived.url")
    if wanted.method == "GET":
        return Request(url=_with_query(url, given), method="GET", headers=headers)
    return Request(url=url, body=urlencode(given), headers={**headers, "Content-Type": FORM})


def account_request(endpoint: Endpoint, *, token: str) -> Request | None:
    """The request with a new token that says which account it is for, where the dialect has one."""
    after, use = endpoint.dialect.after, endpoint.dialect.use
    if after is None:
        return None
    more, _ = use.filled_headers(client_id=endpoint.client_id, variables=endpoint.variables)
    kind = {"Content-Type": JSON} if after.body else {}
    headers = {"Accept": JSON, **kind, **more, **after.headers}
    url = endpoint.filled(after.url, "afterToken.url")
    if use.place == "query":
        url = _with_query(url, {use.name: f"{use.prefix}{token}"})
    else:
        headers[use.name] = f"{use.prefix}{token}"
    return Request(url=url, method=after.method, body=after.body, headers=headers)


def _client(endpoint: Endpoint, names: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters and headers by which the client authenticates."""
    headers = {"Accept": JSON}
    secret = endpoint.client_secret if endpoint.authentication != "none" else ""
    by_header = endpoint.authentication in ("header", "both") and bool(secret)
    if by_header:
        # Both are form-encoded before they are joined (section 2.3.1): a colon or an umlaut survives.
        headers["Authorization"] = aiohttp.encode_basic_auth(
            quote_plus(endpoint.client_id), quote_plus(secret)
        )
        if endpoint.authentication == "header":
            return {}, headers
    given = {names.get("client_id", "client_id"): endpoint.client_id}
    if secret:
        given[names.get("client_secret", "client_secret")] = secret
    return given, headers


def _with_query(url: str, given: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(given)}"
