"""Values of credentials between REST and the data of a Secret.

A Secret's keys are the specification's field names: text as it is, lists separated by spaces, truth as
``true`` or ``false``. Only ``valueBase64`` differs: its bytes are kept as they are under ``value``.
"""

import base64
from collections.abc import Mapping
from typing import Any

from tieline_api.schemas.base import Rest
from tieline_api.schemas.credential_data import data_model
from tieline_core.resources.connections import CredentialType

VALUE = "value"
BASE64 = "valueBase64"


def to_secret(data: Rest) -> dict[str, bytes]:
    """The data of a Secret for the values that were given."""
    given = data.model_dump(by_alias=True, exclude_none=True)
    return {VALUE if name == BASE64 else name: _encode(name, value) for name, value in given.items()}


def from_secret(kind: CredentialType, data: Mapping[str, str]) -> dict[str, Any]:
    """The values in a Secret (``data`` in Kubernetes' base64) as a credential of type ``kind`` has them.

    Keys that the type does not know are left out. Bytes that are no text are ``valueBase64``.
    """
    values: dict[str, Any] = {}
    for name, info in data_model(kind).model_fields.items():
        field = info.alias or name
        raw = base64.b64decode(data.get(VALUE if field == BASE64 else field, ""))
        if field not in data and not (field == BASE64 and VALUE in data):
            continue
        if field == BASE64:
            values[field] = base64.b64encode(raw).decode()
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            values[BASE64] = base64.b64encode(raw).decode()
            continue
        values[field] = _decode(str(info.annotation), text)
    return values


def _encode(name: str, value: Any) -> bytes:
    match value:
        case bool():
            return b"true" if value else b"false"
        case list():
            return " ".join(value).encode()
        case _ if name == BASE64:
            return base64.b64decode(value)
    return str(value).encode()


def _decode(annotation: str, text: str) -> Any:
    if "bool" in annotation:
        return text == "true"
    if "list" in annotation:
        return text.split()
    return text
