"""Streams and consumers are managed through the servers' system account, where no account of an environment leads.

A server sends what a pod asks for to any reply subject of the pod's account, so a request at a subject of that account
may be a pod's, whatever a pod may publish itself. Requests that manage streams therefore have subjects that only the
system account has, and the platform's by import.
"""

from typing import Any, cast

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from tieline_engine.client import cluster_of

MANAGEMENT_PREFIX = "tieline.manage"
"""The prefix of JetStream's API for requests that manage streams and consumers. It is no secret.

Messages cannot be fetched or read by it: consumers and streams listen in their accounts for that.
"""
_REQUESTER = "Nats-Request-Info"
"""The header in which servers write who asks. They believe it where it comes from a user of the system account."""


def managed_account(system: Client, account: str, *, seconds: float) -> JetStreamContext:
    """JetStream's API for the streams and consumers of an account, by its public key.

    ``system`` is a client of the servers' system account. ``seconds`` are for each request.
    """
    return JetStreamContext(managing_client(system, account), prefix=MANAGEMENT_PREFIX, timeout=seconds)


def managing_client(system: Client, account: str) -> Client:
    """The client whose requests at MANAGEMENT_PREFIX manage an account; see ``managed_account``."""
    return cast(Client, _Requests(system, account))


class _Requests:
    """The part of a client that a JetStreamContext manages streams with."""

    def __init__(self, system: Client, account: str) -> None:
        self._system = system
        # In a cluster, servers place a stream in the cluster of who asks.
        requester = {"acc": account, "cluster": cluster_of(system)}
        self._headers = {_REQUESTER: orjson.dumps(requester).decode()}

    async def request(self, subject: str, payload: bytes = b"", timeout: float = 0.5) -> Msg:  # noqa: ASYNC109
        return await self._system.request(subject, payload, timeout=timeout, headers=self._headers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)
