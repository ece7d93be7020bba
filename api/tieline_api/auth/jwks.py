"""Key sets of issuers (RFC 7517), kept and followed when keys rotate.

An unknown key id makes the set be read again at once, but not more than once in REFETCH_SECONDS, so that
made-up key ids cause no storm. A set that cannot be read leaves the one before it in place.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from tieline_api.auth.issuers import Issuer

logger = logging.getLogger(__name__)

REFETCH_SECONDS = 10.0
KEEP_SECONDS = 600.0
_TIMEOUT = 5.0
_LARGEST = 512 * 1024
_MOST_KEYS = 100

# The algorithms that a key can be used with: what the token's header says chooses among these and no others.
# Symmetric keys ("oct") are in none of them: who checks such tokens can make them.
_BY_TYPE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}


class KeysUnavailableError(Exception):
    """An issuer's keys cannot be read, and none are known."""


@dataclass(frozen=True)
class Key:
    """A public key, and the algorithms that it may be used with."""

    key: Any
    algorithms: tuple[str, ...]


Keys = dict[str, Key]
Load = Callable[[Issuer], Awaitable[bytes]]


def parse_keys(text: bytes) -> Keys:
    """The keys of a set by their ids (``""`` for one without); keys of no use here are left out.

    Raises ValueError for what is no key set.
    """
    content = orjson.loads(text)
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no key set: it has no list of keys")
    return {
        str(item.get("kid", "")): key
        for item in listed[:_MOST_KEYS]
        if isinstance(item, dict) and (key := _key(item)) is not None
    }


def _key(item: Mapping[str, Any]) -> Key | None:
    if item.get("use", "sig") != "sig":
        return None
    kind = str(item.get("kty", ""))
    possible = _BY_TYPE.get((kind, "" if kind == "RSA" else str(item.get("crv", ""))), ())
    declared = item.get("alg")
    algorithms = possible if declared is None else tuple(one for one in possible if one == declared)
    if not algorithms:
        return None
    public = {name: value for name, value in item.items() if name not in ("d", "p", "q", "dp", "dq", "qi")}
    try:
        return Key(PyJWK.from_dict(public, algorithm=algorithms[0]).key, algorithms)
    except (PyJWTError, ValueError, TypeError):
        return None


async def load(issuer: Issuer) -> bytes:
    """The text of an issuer's key set. Redirects are not followed."""
    if issuer.jwks_file is not None:
        return await asyncio.to_thread(issuer.jwks_file.read_bytes)
    if issuer.jwks_url is None:
        raise ValueError("an issuer has a URL or a file")
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with (
        aiohttp.ClientSession(
            timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
        ) as session,
        session.get(issuer.jwks_url, allow_redirects=False) as response,
    ):
        if response.status != 200:
            raise ValueError(f"HTTP {response.status}")
        text = await response.content.read(_LARGEST + 1)
        while len(text) <= _LARGEST and (more := await response.content.read(_LARGEST)):
            text += more
        if len(text) > _LARGEST:
            raise ValueError("too large")
        return text


@dataclass
class _Kept:
    keys: Keys = field(default_factory=dict)
    read: float = float("-inf")
    tried: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class JwksCache:
    """The keys of issuers."""

    def __init__(self, *, load: Load = load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._kept: dict[Issuer, _Kept] = {}

    async def key(self, issuer: Issuer, identifier: str | None) -> Key | None:
        """The key with this id; without one the only key there is. Raises KeysUnavailableError."""
        kept = self._kept.setdefault(issuer, _Kept())
        found = _chosen(kept.keys, identifier)
        if found is not None and self._clock() - kept.read < KEEP_SECONDS:
            return found
        async with kept.lock:
            if self._clock() - kept.tried >= REFETCH_SECONDS:
                await self._read(issuer, kept)
        if not kept.keys:
            raise KeysUnavailableError(issuer.issuer)
        return _chosen(kept.keys, identifier)

    def forget(self) -> None:
        """Reads all sets again when they are next needed: the issuers have changed."""
        self._kept.clear()

    async def _read(self, issuer: Issuer, kept: _Kept) -> None:
        kept.tried = self._clock()
        try:
            keys = parse_keys(await self._load(issuer))
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            logger.warning(
                "Cannot read the keys of the issuer %s, keeping those that are known: %s",
                issuer.issuer,
                str(error)[:200] or type(error).__name__,
            )
            return
        kept.keys, kept.read = keys, self._clock()


def _chosen(keys: Keys, identifier: str | None) -> Key | None:
    if identifier is not None:
        return keys.get(identifier)
    return next(iter(keys.values())) if len(keys) == 1 else None
