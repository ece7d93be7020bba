"""Keepers of tokens for connections in memory, at a time that tests set."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import MemoryLookups
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_protocol.oauth.token_client import TokenClient


class There(Protocol):
    """What a token_manager finds."""

    kube: MemoryKube
    lookups: MemoryLookups
    states: OAuthStateStore
    now: datetime


def token_manager(there: There, client: TokenClient) -> TokenManager:
    """A process' token_manager of what is there."""
    return TokenManager(
        there.kube,
        client=client,
        lookups=there.lookups,
        states=there.states,
        refresher=RefreshCoordinator(there.kube, poll=0.001, now=lambda: there.now),
        now=lambda: there.now,
    )
