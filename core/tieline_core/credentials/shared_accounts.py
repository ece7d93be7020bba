"""Connections that hold authorisations of one account, where the provider keeps only so many of them.

Which account it is, is known where the auth scheme keeps an ``accountId``.
"""

import hashlib
from base64 import b64decode

from tieline_core.oauth import token_secret_codec
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_protocol.oauth.kept import Kept


def account_in(secret: ObjectView) -> str:
    """A fingerprint of the client and the account whose tokens a Secret holds.

    Empty where that is not known, where there are no tokens, and where the provider has refused them.
    """
    notes, data = secret["metadata"].get("annotations") or {}, secret.get("data") or {}
    asked_as = notes.get(token_secret_codec.ASKED_AS, "")
    if not asked_as or token_secret_codec.REFUSED in notes or not data.get("accessToken"):
        return ""
    if token_secret_codec.KEPT not in data:
        return ""
    kept = Kept.decoded(b64decode(data[token_secret_codec.KEPT]).decode("utf-8", "replace"))
    if not kept.account_id:
        return ""
    return hashlib.sha256(f"{asked_as}\0{kept.account_id}".encode("utf-8", "replace")).hexdigest()[:32]


def sharing_warning(scheme: AuthSchemeConfig | None, holders: int) -> str | None:
    """What ``holders`` connections mean that have tokens of one account; None where the provider keeps them all.

    No connection is named: end users read it, too.
    """
    authorization = scheme.oauth2.authorization if scheme and scheme.oauth2 else None
    most = authorization.grants_per_account if authorization else None
    if most is None or holders < max(most, 2):
        return None
    kept = "1 authorisation" if most == 1 else f"{most} authorisations"
    if holders == most:
        return (
            f"{holders} connections hold authorisations of this account, as many as the provider keeps. One more ends "
            "the oldest: use one of them again, or a client of your own"
        )
    return (
        f"{holders} connections hold authorisations of this account, and the provider keeps {kept}, so the oldest "
        "end. Use one connection for the account, or a client of its own for each"
    )
