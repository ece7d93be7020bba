"""The values of credentials, as text or as bytes; what is missing is named by its key, never by a value."""

import base64
import binascii

from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.snapshot import Credential


def field(credential: Credential, name: str) -> str:
    """The text under a key of the credential's data; raises InvalidCredentialError when there is none."""
    value = credential.data.get(name)
    if not isinstance(value, str):
        raise InvalidCredentialError(
            f"it has no {name!r}; a credential of type {credential.type} for {credential.scheme} needs "
            f"the key {name!r} in its Secret"
        )
    return value


def text(credential: Credential) -> str:
    """The value of a ``string`` or ``binary`` credential where a text is needed."""
    if "valueBase64" not in credential.data:
        return field(credential, "value")
    try:
        return _decoded(credential).decode()
    except UnicodeDecodeError:
        raise InvalidCredentialError(
            f"its binary value is no text, and {credential.scheme} needs a text"
        ) from None


def raw(credential: Credential, name: str = "value") -> bytes:
    """A key's bytes: those of ``name`` in UTF-8, or the exact ones of a ``binary`` credential."""
    if "valueBase64" in credential.data:
        return _decoded(credential)
    return field(credential, name if name in credential.data else "value").encode()


def _decoded(credential: Credential) -> bytes:
    try:
        return base64.b64decode(field(credential, "valueBase64"), validate=True)
    except binascii.Error:
        raise InvalidCredentialError("its binary value is not base64") from None
