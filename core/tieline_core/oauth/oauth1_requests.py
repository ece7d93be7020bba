"""Requests for OAuth 1.0 credentials (RFC 5849, section 2): oauthlib signs them, nothing here sends them.

What an endpoint's additional parameters are, and where they go, is decided here as well.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from cryptography.exceptions import UnsupportedAlgorithm
from jwt.exceptions import PyJWTError
from oauthlib import oauth1
from oauthlib.oauth1.rfc5849.utils import escape

from tieline_core.oauth.endpoint_urls import url_problem
from tieline_core.resources.auth_schemes import (
    OAuth1Endpoint,
    OAuth1Location,
    OAuth1Parameter,
    OAuth1Transmission,
    OAuth1Usage,
)
from tieline_protocol.oauth.token_client import MisconfiguredError

# Its debug messages hold what is signed, and PLAINTEXT signatures, which are the secrets themselves.
logging.getLogger("oauthlib.oauth1").setLevel(logging.INFO)

FORM = "application/x-www-form-urlencoded"
TEMPORARY, TOKEN = OAuth1Usage.TEMP_CREDENTIAL_ENDPOINT, OAuth1Usage.TOKEN_REQUEST_ENDPOINT

_STYLES = {
    OAuth1Transmission.HEADER: oauth1.SIGNATURE_TYPE_AUTH_HEADER,
    OAuth1Transmission.FORM: oauth1.SIGNATURE_TYPE_BODY,
    OAuth1Transmission.QUERY: oauth1.SIGNATURE_TYPE_QUERY,
}
_OF_THE_PROTOCOL = frozenset(
    f"oauth_{name}"
    for name in (
        *("callback", "consumer_key", "nonce", "signature", "signature_method"),
        *("timestamp", "token", "verifier", "version"),
    )
)
_OF_THE_REQUEST = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding"}
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What oauthlib raises of its own, and lets through of the libraries that read RSA keys (AttributeError: a public key).
_UNSIGNABLE = (ValueError, TypeError, AttributeError, PyJWTError, UnsupportedAlgorithm)
# What may stand in a host or a port: nothing that ends it.
_HOST_PART = re.compile(r"[A-Za-z0-9.-]+")


class ParameterError(MisconfiguredError):
    """An additional parameter cannot be used; ``parameter`` is its name, ``modifiable`` whether users give it."""

    def __init__(self, parameter: str, message: str, *, modifiable: bool = False) -> None:
        super().__init__(f'The OAuth 1.0 parameter "{parameter}" {message}')
        self.parameter = parameter
        self.modifiable = modifiable


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """Whom the provider knows the application as."""

    key: str
    secret: str = field(repr=False)
    """For the RSA methods a private key in PEM."""
    method: str


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A request as it is to be sent, by POST."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: str = field(repr=False)


def authorization_url(endpoint: OAuth1Endpoint, *, token: str, params: Mapping[str, str]) -> str:
    """Where the user is sent to (section 2.2). Raises MisconfiguredError."""
    placed = _Placed(endpoint, None, params)
    for one in ("body", "headers", "oauth"):
        for name in getattr(placed, one):
            raise ParameterError(
                name, "cannot be sent by a browser: choose LOCATION_QUERY or LOCATION_ENDPOINT"
            )
    return _with_query(placed.url, {**placed.query, "oauth_token": token})


def check_params(endpoints: Mapping[OAuth1Usage | None, OAuth1Endpoint], params: Mapping[str, str]) -> None:
    """ParameterError for a value that no endpoint has use for, or that its scheme does not let users change.

    Also where one that is required has no value at all.
    """
    configs = [one for endpoint in endpoints.values() for one in endpoint.additional_param_configs]
    for name in params:
        own = [one for one in configs if one.parameter_name == name]
        if not own:
            raise ParameterError(name, "is none of the auth scheme's; leave it out")
        if not any(one.modifiable for one in own):
            raise ParameterError(name, "may not be changed: the auth scheme says what it is; leave it out")
    for usage, endpoint in endpoints.items():
        _Placed(endpoint, usage, params)


class _Placed:
    """An endpoint's additional parameters, each where it goes."""

    def __init__(
        self, endpoint: OAuth1Endpoint, usage: OAuth1Usage | None, params: Mapping[str, str]
    ) -> None:
        self.query: dict[str, str] = {}
        self.body: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        self.oauth: dict[str, str] = {}
        filled: dict[str, str] = {}
        parameter_names: dict[str, str] = {}
        targets = {
            OAuth1Location.QUERY: self.query,
            OAuth1Location.BODY: self.body,
            OAuth1Location.HEADER: self.headers,
            OAuth1Location.HEADER_PARAMETER: self.oauth,
            OAuth1Location.ENDPOINT: filled,
        }
        for one, value in _used(endpoint, usage, params):
            name = one.target_name or one.parameter_name
            _check(one, name, value)
            targets[one.location][name] = value
            parameter_names[name] = one.parameter_name
        self.url = _filled(endpoint.url, filled, parameter_names)


class _Client(oauth1.Client):
    """Also signs what else is to travel in the Authorization header."""

    extra: Mapping[str, str] = {}

    def _render(self, request: Any, formencode: bool = False, realm: Any = None) -> Any:
        url, headers, body = super()._render(  # type: ignore[misc]  # private, so the stubs leave it out
            request, formencode=formencode, realm=realm
        )
        if self.extra and "oauth_signature" in dict(request.oauth_params):
            more = "".join(f', {escape(name)}="{escape(value)}"' for name, value in self.extra.items())
            headers = {**headers, "Authorization": headers["Authorization"] + more}
        elif self.extra:
            # What is signed is collected from here; oauthlib reads no foreign names from the header rightly.
            url = _with_query(url, self.extra)
        return url, headers, body


def signed(
    endpoint: OAuth1Endpoint,
    consumer: Consumer,
    usage: OAuth1Usage,
    params: Mapping[str, str],
    **protocol: str,
) -> Signed:
    """A request for credentials (sections 2.1 and 2.3); ``protocol`` as oauthlib's client has it.

    Raises MisconfiguredError.
    """
    placed = _Placed(endpoint, usage, params)
    style = _STYLES[endpoint.parameter_transmission]
    # Without an Authorization header its parameters travel as the protocol's own do.
    if style == oauth1.SIGNATURE_TYPE_BODY:
        placed.body |= placed.oauth
    elif style == oauth1.SIGNATURE_TYPE_QUERY:
        placed.query |= placed.oauth
    rsa = consumer.method.startswith("RSA")
    client = _Client(
        consumer.key,
        client_secret=None if rsa else consumer.secret,
        rsa_key=consumer.secret if rsa else None,
        signature_method=consumer.method,
        signature_type=style,
        **protocol,
    )
    client.extra = placed.oauth if style == oauth1.SIGNATURE_TYPE_AUTH_HEADER else {}
    form = bool(placed.body) or style == oauth1.SIGNATURE_TYPE_BODY
    try:
        url, headers, body = client.sign(
            _with_query(placed.url, placed.query),
            http_method="POST",
            body=urlencode(placed.body) if form else None,
            headers={"Content-Type": FORM} if form else None,
        )
    except _UNSIGNABLE:
        raise MisconfiguredError(
            "The OAuth 1.0 request cannot be signed: an RSA method needs a private key in PEM as consumerSecret, "
            "and the endpoint's query has to be percent-encoded"
        ) from None
    return Signed(url=url, headers={**headers, **placed.headers}, body=body or "")


def _used(
    endpoint: OAuth1Endpoint, usage: OAuth1Usage | None, params: Mapping[str, str]
) -> Iterator[tuple[OAuth1Parameter, str]]:
    """The parameters of a request that have a value, with it."""
    for one in endpoint.additional_param_configs:
        if one.location is OAuth1Location.IGNORE or one.usages not in (OAuth1Usage.UNKNOWN, usage):
            continue
        value = (one.modifiable and params.get(one.parameter_name)) or one.value
        if value:
            yield one, value
        elif one.required:
            advice = "give it in params" if one.modifiable else "the auth scheme lacks its value"
            raise ParameterError(one.parameter_name, f"is required: {advice}", modifiable=one.modifiable)


def _check(one: OAuth1Parameter, name: str, value: str) -> None:
    if not value.isprintable():
        raise ParameterError(one.parameter_name, "has letters that cannot be sent")
    if one.location is OAuth1Location.HEADER:
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OF_THE_REQUEST:
            raise ParameterError(
                one.parameter_name, f'cannot be sent as the header "{name}"; choose another targetName'
            )
    elif name in _OF_THE_PROTOCOL and one.location is not OAuth1Location.ENDPOINT:
        raise ParameterError(
            one.parameter_name, f'must not set "{name}", which the protocol sets; choose another'
        )


def _filled(url: str, values: Mapping[str, str], parameter_names: Mapping[str, str]) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise MisconfiguredError("The OAuth 1.0 endpoint's url is not a URL; correct it") from None
    host, rest = parts.netloc, urlunsplit(("", "", parts.path, parts.query, parts.fragment))
    for name, value in values.items():
        placeholder = f"{{{name}}}"
        if placeholder in host and not _HOST_PART.fullmatch(value):
            raise ParameterError(
                parameter_names[name], "stands in the host's name: letters, digits, dots and hyphens only"
            )
        host = host.replace(placeholder, value)
        rest = rest.replace(placeholder, quote(value, safe=""))
    found = f"{parts.scheme}://{host}{rest}"
    problem = url_problem(found)
    if problem:
        raise MisconfiguredError(f"The OAuth 1.0 endpoint's url {problem}")
    return found


def _with_query(url: str, more: Mapping[str, str]) -> str:
    if not more:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(more, quote_via=quote)}"
