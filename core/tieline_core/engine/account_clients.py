"""Who connects to the accounts of the engine, as its servers tell through their system account."""

from collections.abc import Set
from typing import Any

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from tieline_core.engine.system_requests import ask_all

CONNECT_EVENTS = "$SYS.ACCOUNT.*.CONNECT"
"""The subject at which a server tells of each client that has connected."""
_PAGE = 1024


def connected_client(event: Msg) -> tuple[str, str] | None:
    """Account (public key) and name of the client that has connected; None for an event that says something else."""
    parts = event.subject.split(".")
    try:
        return parts[2], str(orjson.loads(event.data)["client"]["name"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


async def accounts_with_clients(system: Client) -> Set[str]:
    """The accounts (public keys) to which clients are connected. Raises EngineAnswerError and the errors of nats-py."""
    servers = len(await ask_all(system, "$SYS.REQ.SERVER.PING.JSZ", {}))
    answers = await ask_all(system, "$SYS.REQ.ACCOUNT.PING.STATZ", {}, servers=servers)
    return {
        str(one["acc"])
        for answer in answers
        for one in answer.get("account_statz") or ()
        if int(one.get("conns") or 0) > 0
    }


async def client_names(system: Client, account: str) -> Set[str]:
    """The names of the clients that are connected to an account. Raises as ``accounts_with_clients``."""
    servers = len(await ask_all(system, "$SYS.REQ.SERVER.PING.JSZ", {}))
    wanted: dict[str, Any] = {"acc": account, "limit": _PAGE}
    answers = await ask_all(system, "$SYS.REQ.SERVER.PING.CONNZ", wanted, servers=servers)
    return {str(one.get("name", "")) for answer in answers for one in answer.get("connections") or ()}
