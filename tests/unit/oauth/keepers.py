"""Keepers of tokens for connections in memory, at a time that tests set."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import MemoryLookups
from tieline_core.oauth.keeping import Keeper
from tieline_core.oauth.refreshing import Refresher
from tieline_core.oauth.states import OAuthStates
from tieline_core.oauth.tokens import TokenClient


class There(Protocol):
    """What a keeper finds."""

    kube: MemoryKube
    lookups: MemoryLookups
    states: OAuthStates
    now: datetime


def keeper(there: There, client: TokenClient) -> Keeper:
    """A process' keeper of what is there."""
    return Keeper(
        there.kube,
        client=client,
        lookups=there.lookups,
        states=there.states,
        refresher=Refresher(there.kube, poll=0.001, now=lambda: there.now),
        now=lambda: there.now,
    )
