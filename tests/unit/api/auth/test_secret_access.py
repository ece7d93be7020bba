"""Which Secrets a write sends elsewhere, and who may."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.harness.inputs.reference_changes import CASES, Case, connection, key, oauth2, own
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.auth.secret_access import SecretAccess, merged, secrets_sent
from tieline_api.errors import ApiError

ANN = Caller(username="ann")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_change_sends_these_secrets_elsewhere(case: Case) -> None:
    assert set(secrets_sent(case.before, case.after)) == case.sent


def test_an_apply_of_single_fields_is_judged_together_with_what_is_there() -> None:
    live = connection(own(oauth2(secretRef={"name": "app"})), key())
    refresh = {"oauth2": {"refreshUrl": "https://elsewhere.example/token"}}
    after = merged(live, {"credentials": [{"id": "own", "authSchemeConfig": refresh}]})
    assert [item["id"] for item in after["credentials"]] == ["own", "key"]
    assert after["credentials"][0]["authSchemeConfig"]["oauth2"]["tokenUrl"]
    assert set(secrets_sent(live, after)) == {"code", "app"}
    assert secrets_sent(live, merged(live, {"name": "Another"})) == []


class _Access:
    def __init__(self, *allowed: tuple[str, str]) -> None:
        self._allowed = allowed

    async def allowed(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        assert (caller, namespace, permission.group, permission.resource) == (ANN, "acme", "", "secrets")
        return (permission.verb, permission.name) in self._allowed


class _Secrets:
    """Those of the cache, and those of the API server, which has seen more."""

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._secret(name, {"mine": ["uid"], "others": ["another uid"], "adopted": []})

    async def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._secret(name, {"mine": ["uid"], "others": ["another uid"], "adopted": ["uid"]})

    def _secret(self, name: str, owners: Mapping[str, list[str]]) -> Mapping[str, Any] | None:
        if name not in owners:
            return None
        return {"metadata": {"name": name, "ownerReferences": [{"uid": uid} for uid in owners[name]]}}


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        ([], ""),
        (["mine", "staged", "readable", "usable"], ""),
        (["adopted"], ""),
        (["others"], "Secrets others:"),
        (["absent", "mine", "absent"], "Secrets absent:"),
        ([f"s{number}" for number in range(14)], "s11 and 2 more:"),
    ],
)
async def test_the_owners_own_secrets_and_those_that_the_caller_may_get_or_use_may_be_sent(
    names: list[str], refused: str
) -> None:
    access = _Access(("get", "readable"), ("use", "usable"))
    references = SecretAccess(access, _Secrets())  # type: ignore[arg-type]
    owner = {"metadata": {"namespace": "acme", "uid": "uid"}}
    if not refused:
        await references.check(ANN, owner, names, staged=["staged"])
        return
    with pytest.raises(ApiError) as told:
        await references.check(ANN, owner, names, staged=["staged"])
    assert (told.value.status, told.value.code) == (403, "forbidden")
    assert refused in told.value.message
    assert "get or use" in told.value.message
