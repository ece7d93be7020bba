"""The callback page's requests need no sign-in: they tell nobody which organisations there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.oauth.memory_kube import MemoryKube
from tieline_api.cache.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.schemas.credential_data import CredentialData, OAuth2CodeData
from tieline_api.use_cases.authorization_completion import abandon, complete
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import Forbidden, Resource
from tieline_core.oauth.state_store import OAuthStateStore, new_state

THEIRS = new_id()


class Kube(MemoryKube):
    """Says in which namespaces it was asked; ``confined`` to the one organisation that is served."""

    def __init__(self, *, confined: bool) -> None:
        super().__init__()
        self._confined = confined
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        self.asked.append(namespace or "")
        if self._confined and namespace != "acme":
            raise Forbidden("no", status=403)
        return await super().get(resource, name, namespace)


def _platform(kube: Kube) -> Any:
    def organisation(identifier: str) -> Organisation | None:
        return Organisation(id=identifier, namespace="acme") if identifier == THEIRS else None

    world = SimpleNamespace(need_sync=lambda: None, organisation=organisation)
    return SimpleNamespace(world=world, oauth_states=OAuthStateStore(kube, seconds=60))  # type: ignore[arg-type]


@pytest.mark.parametrize("confined", [False, True], ids=["the whole cluster", "one organisation"])
async def test_a_made_up_state_is_answered_alike_whether_there_is_the_organisation(confined: bool) -> None:
    told, asked = [], []
    for identifier in (THEIRS, new_id()):
        kube = Kube(confined=confined)
        state = new_state(identifier)
        brought = CredentialData(oauth2_code=OAuth2CodeData(code="c", state=state))
        with pytest.raises(ApiError) as caught:
            await complete(_platform(kube), state=state, credential_data=brought)
        await abandon(_platform(kube), state)
        told.append((caught.value.status, caught.value.body()))
        asked.append(len(kube.asked))
        assert all(kube.asked), "each in a namespace"
    assert told[0] == told[1]
    assert told[0][0] == 422
    assert asked == [2, 2]
