"""JWTs that senders put beside a request: whose they are, how old, and whether they name this body and this URL."""

import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import jwt

from tieline.auth.credential_values import text
from tieline.auth.hmac_signatures import signing_key
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.auth.public_keys import check_jwt_key, public_key
from tieline.auth.signed_parts import body_hashes
from tieline.configuration.snapshot import Credential
from tieline_protocol.signatures import SignatureScheme

MAX_TOKEN = 8192


class JwtProofError(ValueError):
    """A token proves nothing; the message says why, and holds none of it."""


def check_jwt(
    credential: Credential,
    scheme: SignatureScheme,
    token: str,
    *,
    body: bytes,
    method: str,
    urls: Iterable[str],
) -> None:
    """Raises JwtProofError, and InvalidCredentialError for a credential that cannot verify a token.

    The algorithm is the scheme's, whatever the token's header says, and the key is of that algorithm's kind.
    """
    claims = _claims(credential, scheme, token)
    _check_times(claims, scheme.tolerance_seconds)
    if scheme.body_hash is not None:
        claimed = str(claims.get(scheme.body_hash[1]) or "")
        if not any(_same(claimed, one) for one in body_hashes(body)):
            raise JwtProofError("its token is for another body")
    if scheme.query_hash_claim:
        claimed = str(claims.get(scheme.query_hash_claim) or "")
        if not any(_same(claimed, query_hash(method, url)) for url in urls):
            raise JwtProofError("its token is for another method or URL")


def query_hash(method: str, path: str) -> str:
    """Atlassian's ``qsh``: the SHA-256 of the method, the path and the sorted query.

    >>> query_hash("GET", "/path?b=2&a=1&a=0")[:8]
    'd86df002'
    """
    path, _, query = path.partition("?")
    values: dict[str, list[str]] = {}
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if _decoded(name) != "jwt":
            values.setdefault(_encoded(name), []).append(_encoded(value))
    canonical = "&".join(f"{name}={','.join(sorted(values[name]))}" for name in sorted(values))
    trimmed = path.rstrip("/") or "/"
    return hashlib.sha256("&".join((method.upper(), trimmed, canonical)).encode()).hexdigest()


def _claims(credential: Credential, scheme: SignatureScheme, token: str) -> Mapping[str, Any]:
    algorithm = scheme.algorithm.removeprefix("jwt-").upper()
    if len(token) > MAX_TOKEN:
        raise JwtProofError(f"its token has more than {MAX_TOKEN} characters")
    key: Any
    if algorithm.startswith("HS"):
        key = signing_key(credential, scheme)
    else:
        key = public_key(text(credential), scheme.key_encoding)
        check_jwt_key(key, algorithm)
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            options={
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.InvalidKeyError:
        raise InvalidCredentialError("its key does not fit its auth scheme's algorithm") from None
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise JwtProofError(
            "no signature matches: its token was made with another secret or algorithm, or is no JWT"
        ) from None
    return claims


def _check_times(claims: Mapping[str, Any], tolerance: int) -> None:
    now = time.time()
    times: dict[str, float] = {}
    for name in ("exp", "nbf", "iat"):
        if name in claims:
            if isinstance(claims[name], bool) or not isinstance(claims[name], int | float):
                raise JwtProofError(f"its token's {name} is no time")
            times[name] = float(claims[name])
    if "exp" in times and not now < times["exp"] + tolerance:
        raise JwtProofError("its token has expired")
    if any(not times[name] <= now + tolerance for name in ("nbf", "iat") if name in times):
        raise JwtProofError("its token is not valid yet")
    if "iat" in times and "exp" not in times and not now - times["iat"] <= tolerance:
        raise JwtProofError(
            f"its token is {now - times['iat']:.0f} seconds old; at most {tolerance} are accepted"
        )


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _decoded(text_: str) -> str:
    return unquote_to_bytes(text_.replace("+", " ")).decode("utf-8", "replace")


def _encoded(text_: str) -> str:
    return quote(unquote_to_bytes(text_.replace("+", " ")), safe="-._~")
