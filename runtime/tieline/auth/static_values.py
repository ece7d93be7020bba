"""Auth schemes that send a value as it is: keys, passwords, access tokens, shared secrets."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from tieline.auth.credential_values import field, text
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.configuration.snapshot import Credential, client_id_of
from tieline_protocol.oauth.dialect import TokenUse, object_of

FORM = "application/x-www-form-urlencoded"
_ANY = "*/*"


async def apply_nothing(_request: PreparedRequest, _credential: Credential) -> None:
    """Send nothing."""


async def apply_api_key(request: PreparedRequest, credential: Credential) -> None:
    """Send a key in a header, a query parameter or a cookie, behind the scheme's prefix."""
    options, key = credential.options, text(credential)
    _add_headers(request, options)
    request.set_value(options.get("in"), str(options.get("name") or ""), with_prefix(options, key))


def with_prefix(options: Mapping[str, Any], key: str) -> str:
    """The key as it is sent; a key that was entered with its prefix is sent as it is.

    >>> with_prefix({"prefix": "Bearer "}, "k3y"), with_prefix({"prefix": "Bearer "}, "Bearer k3y")
    ('Bearer k3y', 'Bearer k3y')
    """
    prefix = str(options.get("prefix") or "")
    return key if key.startswith(prefix) else prefix + key


async def apply_basic(request: PreparedRequest, credential: Credential) -> None:
    """RFC 7617, in UTF-8."""
    username, password = field(credential, "username"), field(credential, "password")
    if ":" in username:
        raise InvalidCredentialError(
            "a user name with a colon cannot be sent with basic authentication (RFC 7617)"
        )
    _add_headers(request, credential.options)
    token = base64.b64encode(f"{username}:{password}".encode()).decode()
    request.set_header("Authorization", f"Basic {token}")


async def apply_access_token(request: PreparedRequest, credential: Credential) -> None:
    """RFC 6750: the access token in the Authorization header, or where the scheme's ``token`` says."""
    if "accessToken" not in credential.data:
        raise InvalidCredentialError(
            f"there is no access token for it yet (it is of type {credential.type}); "
            "authorise the connection, or wait until the platform has obtained a token"
        )
    use = TokenUse.of(object_of(credential.options.get("token")))
    headers, missing = use.filled_headers(
        client_id=client_id_of(credential.options, credential.data),
        variables=object_of(credential.data.get("variables")),
    )
    if missing:
        raise InvalidCredentialError(
            f"a header of its scheme has the variable {missing}, which has no value; set it in the connection's "
            "variables, or authorise the connection again"
        )
    for name, value in headers.items():
        request.set_header(name, value)
    if use.secret_place:
        request.set_value(
            use.secret_place, use.secret_name, f"{use.secret_prefix}{field(credential, 'clientSecret')}"
        )
    request.set_value(use.place, use.name, f"{use.prefix}{field(credential, 'accessToken')}")


async def apply_secret(request: PreparedRequest, credential: Credential) -> None:
    """Send a shared secret in a header, a query parameter, a cookie or a field of the body."""
    name, where = str(credential.options.get("name") or ""), credential.options.get("in")
    if where != "body":
        request.set_value(where, name, text(credential))
        return
    if not name:
        raise InvalidCredentialError("its auth scheme has no name to send it under")
    body = await request.body()
    request.set_body(_with_field(body, request.headers.get("Content-Type", ""), name, text(credential)))


def _add_headers(request: PreparedRequest, options: Mapping[str, Any]) -> None:
    """Set the scheme's headers that the request does not have. aiohttp gives each request ``Accept: */*``."""
    headers = options.get("headers")
    for name, value in (headers if isinstance(headers, Mapping) else {}).items():
        if request.headers.get(name, _ANY) == _ANY:
            request.set_header(str(name), str(value))


def is_form(content_type: str) -> bool:
    """Whether a body of this content type holds form-encoded parameters."""
    return content_type.partition(";")[0].strip().lower() == FORM


def _with_field(body: bytes, content_type: str, name: str, value: str) -> bytes:
    """``body`` with the field set; a field of that name is replaced."""
    if body and is_form(content_type):
        parts = [part for part in body.decode("latin-1").split("&") if part]
        kept = [part for part in parts if unquote_plus(part.partition("=")[0]) != name]
        return "&".join([*kept, f"{quote_plus(name)}={quote_plus(value)}"]).encode("latin-1")
    media_type = content_type.partition(";")[0].strip().lower()
    if body and (media_type == "application/json" or media_type.endswith("+json")):
        try:
            fields = json.loads(body)
        except ValueError:
            raise InvalidCredentialError("it goes into the body, and the body is not valid JSON") from None
        if isinstance(fields, dict):
            return json.dumps({**fields, name: value}, ensure_ascii=False, separators=(",", ":")).encode()
    raise InvalidCredentialError(
        "it goes into the body, and the request has neither a form nor a JSON object as its body; "
        "pass data={...} or json={...}"
    )
