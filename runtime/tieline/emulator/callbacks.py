"""The query with which a provider sends a person back, signed where its documentation says so."""

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

_VARIABLE = re.compile(r"\{([A-Za-z0-9_-]+)\}")
_OTHER = "somebody-else"


class Forgery(StrEnum):
    """What an attacker has changed in a callback."""

    SIGNATURE = "signature"
    """It is signed by another secret."""
    ACCOUNT = "account"
    """It is the provider's, and of another account."""
    ADDED = "added"
    """It has a parameter that was not there when it was signed."""


def signed_callback(
    query: Mapping[str, str],
    signature: Mapping[str, Any],
    *,
    secret: str,
    values: Mapping[str, str],
    now: float,
    forgery: Forgery | None = None,
) -> dict[str, str]:
    """The query with what a ``callbackSignature`` documents. ``values`` are those of the account."""
    found = dict(query)
    if forgery is Forgery.ACCOUNT:
        values = dict.fromkeys(values, _OTHER)
    for one in signature.get("expect") or ():
        found[one["parameter"]] = _VARIABLE.sub(lambda name: values.get(name[1], name[0]), one["value"])
    if name := signature.get("timestampParameter"):
        found[name] = str(int(now))
    left_out = set(signature.get("unsigned") or ())
    text = urlencode(sorted((name, value) for name, value in found.items() if name not in left_out))
    key = _OTHER if forgery is Forgery.SIGNATURE else secret
    digest = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    is_base64 = signature.get("encoding") == "base64"
    found[signature["parameter"]] = b64encode(digest).decode() if is_base64 else digest.hex()
    return {**found, "added": "1"} if forgery is Forgery.ADDED else found
