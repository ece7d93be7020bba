"""Accounts of the engine's servers, through their system account, and what the streams of all accounts hold."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from nats.aio.client import Client

from tieline_core.engine.streams import SETTINGS, StreamOwner
from tieline_core.engine.system_requests import REQUEST_SECONDS, ask, ask_all
from tieline_engine.streams import publishers_limit

_PAGE = 128
"""Accounts in an answer: some 5 KiB each."""
_MAX_PAGES = 1000


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """A stream as the engine lists it."""

    account: str
    """Public key."""
    name: str
    owner: StreamOwner | None
    settings: str
    """The fingerprint that it was made with."""
    messages: int
    last_sequence: int
    consumers: int
    oldest: datetime | None
    """When the first message that it still has was stored."""
    stored: int = 0
    """Bytes that it takes."""
    limit: int = 0
    """Bytes that it may take; 0 without a limit."""

    @property
    def fill(self) -> float:
        """The share of the bytes it may take that it takes; 0 without a limit."""
        return self.stored / self.limit if self.limit else 0.0

    @property
    def revision(self) -> tuple[int, int]:
        """Differs once there are other messages in it."""
        return self.last_sequence, self.messages


async def push_account(system: Client, jwt: str) -> None:
    """Gives the servers an account, or a new version of it. Raises EngineAnswerError and the errors of nats-py."""
    await ask(system, "$SYS.REQ.CLAIMS.UPDATE", jwt.encode())


async def ensure_account(system: Client, account: str, jwt: str) -> bool:
    """Gives the servers an account unless they have it like this; whether that was necessary.

    Raises as ``push_account``.
    """
    if is_said(await account_claims_of(system, account), jwt):
        return False
    await push_account(system, jwt)
    return True


def is_said(claims: Mapping[str, Any] | None, jwt: str) -> bool:
    """Whether what the servers have of an account says what ``jwt`` does."""
    return claims == _claims(jwt.encode())


async def delete_accounts(system: Client, jwt: str) -> None:
    """Takes accounts from the servers, by a ``deletion_jwt``; their streams stay on disk.

    Raises as ``push_account``.
    """
    await ask(system, "$SYS.REQ.CLAIMS.DELETE", jwt.encode())


async def account_claims_of(system: Client, account: str) -> Mapping[str, Any] | None:
    """``name`` of an account, and ``nats``, what is said of it; None where the servers do not have it.

    Raises the errors of nats-py.
    """
    answer = await system.request(f"$SYS.REQ.ACCOUNT.{account}.CLAIMS.LOOKUP", b"", timeout=REQUEST_SECONDS)
    return _claims(answer.data)


async def list_accounts(system: Client) -> Sequence[str]:
    """The public keys of all accounts. Raises as ``push_account``."""
    return [str(one) for one in (await ask(system, "$SYS.REQ.CLAIMS.LIST", b"")) or ()]


async def list_streams(system: Client) -> Sequence[StreamFacts]:
    """All streams of all accounts, each as its leader sees it. Raises as ``push_account``.

    Those whose leader does not answer are missing.
    """
    found: dict[tuple[str, str], StreamFacts] = {}
    offset = 0
    for _ in range(_MAX_PAGES):
        wanted = {
            "accounts": True,
            "streams": True,
            "config": True,
            "stream_leader_only": True,
            "offset": offset,
            "limit": _PAGE,
        }
        answers = await ask_all(system, "$SYS.REQ.SERVER.PING.JSZ", wanted)
        for answer in answers:
            for one in _streams(answer):
                found[one.account, one.name] = one
        offset += _PAGE
        if all(offset >= int(answer.get("total") or 0) for answer in answers):
            break
    return list(found.values())


def _claims(jwt: bytes) -> Mapping[str, Any] | None:
    """What a JWT says of an account, whenever it was signed; the server trusts whoever signed it."""
    parts = jwt.split(b".")
    if len(parts) != 3:
        return None
    content = orjson.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    return {name: content.get(name) for name in ("iss", "name", "nats")}


def _streams(answer: Mapping[str, Any]) -> Iterator[StreamFacts]:
    for account in answer.get("account_details") or ():
        for stream in account.get("stream_detail") or ():
            yield _facts(str(account["id"]), stream)


def _facts(account: str, stream: Mapping[str, Any]) -> StreamFacts:
    config, state = stream["config"], stream["state"]
    messages, metadata = int(state["messages"]), config.get("metadata") or {}
    return StreamFacts(
        account=account,
        name=config["name"],
        owner=StreamOwner.of(metadata),
        settings=metadata.get(SETTINGS, ""),
        messages=messages,
        last_sequence=int(state["last_seq"]),
        consumers=int(state.get("consumer_count", 0)),
        oldest=_time(state["first_ts"]) if messages else None,
        stored=int(state.get("bytes", 0)),
        limit=_limit(config),
    )


def _limit(config: Mapping[str, Any]) -> int:
    """JetStream's own limit of a stream, or the one that publishers keep."""
    limit = int(config.get("max_bytes", 0))
    return limit if limit > 0 else publishers_limit(config)


def _time(text: str) -> datetime:
    """RFC 3339 with nanoseconds, which are cut."""
    return datetime.fromisoformat(f"{text[:19]}+00:00").astimezone(UTC)
