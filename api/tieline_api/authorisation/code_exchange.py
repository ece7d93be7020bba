"""Codes that are stored by REST are exchanged at once, and who stores them learns what came of each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tieline_api import errors
from tieline_api.authorisation.authorization_codes import (
    AuthorizationResult,
    authorization_result,
    token_error,
)
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_core.credentials.grant_request import UnresolvedError
from tieline_core.credentials.token_manager import FreshTokens
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.resources import CONNECTIONS
from tieline_core.objects import ObjectView
from tieline_protocol.oauth.token_client import TokenError

_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """What came of the codes of one connection."""

    exchanged: int = 0
    failures: tuple[errors.ApiError, ...] = ()


async def exchange_codes(
    platform: Dependencies,
    given: Sequence[rest.ConnectionCredential],
    stored: ObjectView,
    ids: Sequence[str],
    *,
    path: str,
) -> Exchanges:
    """Exchanges all codes of a connection as it is stored now; ``ids`` are those of ``given``.

    They are exchanged side by side, whatever comes of the others: codes are short-lived, and the operator, which
    sees the connection too, would not wait either. A failure is 422 where the provider or the auth scheme says no,
    502 where the provider cannot be asked.
    """
    outcomes = await asyncio.gather(
        *(
            _outcome(platform, result, stored, item_id, field=f"{path}[{index}]")
            for index, (one, item_id) in enumerate(zip(given, ids, strict=True))
            if (result := authorization_result(one))
        )
    )
    failures = tuple(outcome for outcome in outcomes if isinstance(outcome, errors.ApiError))
    return Exchanges(exchanged=outcomes.count(True), failures=failures)


async def _outcome(
    platform: Dependencies, result: AuthorizationResult, stored: ObjectView, item_id: str, *, field: str
) -> errors.ApiError | bool:
    """Whether there are tokens now: not where the auth scheme has none, which the credential's errors tell."""
    try:
        return await _exchanged(platform, stored, item_id) is not None
    except TokenError as error:
        return token_error(error, field=field, about=result.about)
    except KubeError as error:
        return errors.from_kube(error)


async def _exchanged(platform: Dependencies, stored: ObjectView, item_id: str) -> FreshTokens | None:
    for _ in range(_TRIES):
        try:
            return await platform.token_manager.fresh(stored, item_id, retry=True)
        except UnresolvedError:
            # Somebody may have written the connection meanwhile, and put another Secret in this one's place.
            metadata = stored["metadata"]
            live = await platform.kube.get(CONNECTIONS, metadata["name"], metadata["namespace"])
            if live["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
                raise
            platform.cluster.connections.observe(live)
            stored = live
    return await platform.token_manager.fresh(stored, item_id, retry=True)
