"""Auth schemes that send a value as it is: keys, passwords, access tokens, shared secrets."""

import base64
import json
from urllib.parse import quote_plus, unquote_plus

from tieline.auth.credential_values import field, text
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.configuration.snapshot import Credential

FORM = "application/x-www-form-urlencoded"


async def apply_nothing(_request: PreparedRequest, _credential: Credential) -> None:
    """Send nothing."""


async def apply_api_key(request: PreparedRequest, credential: Credential) -> None:
    """Send a key in a header, a query parameter or a cookie."""
    request.set_value(
        credential.options.get("in"), str(credential.options.get("name") or ""), text(credential)
    )


async def apply_basic(request: PreparedRequest, credential: Credential) -> None:
    """RFC 7617, in UTF-8."""
    username, password = field(credential, "username"), field(credential, "password")
    if ":" in username:
        raise InvalidCredentialError(
            "a user name with a colon cannot be sent with basic authentication (RFC 7617)"
        )
    token = base64.b64encode(f"{username}:{password}".encode()).decode()
    request.set_header("Authorization", f"Basic {token}")


async def apply_access_token(request: PreparedRequest, credential: Credential) -> None:
    """RFC 6750: the access token that the platform has obtained, in the Authorization header."""
    if "accessToken" not in credential.data:
        raise InvalidCredentialError(
            f"there is no access token for it yet (it is of type {credential.type}); "
            "authorise the connection, or wait until the platform has obtained a token"
        )
    kind = str(credential.data.get("tokenType") or "Bearer")
    word = "Bearer" if kind.lower() == "bearer" else kind
    request.set_header("Authorization", f"{word} {field(credential, 'accessToken')}")


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
