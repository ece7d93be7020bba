"""Nobody makes an API key that may do more than they may."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.errors import ApiError
from tieline_api.use_cases.api_key_rights import POWERS, check_rights


class Rbac:
    """Who may do what, by names."""

    def __init__(self, **granted: set[Permission]) -> None:
        self.granted = granted

    async def review(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        return namespace == "acme" and permission in self.granted.get(caller.username, set())


def caller(name: str) -> Caller:
    return Caller(username=name, groups=(), organisations=None)


async def check(rbac: Rbac) -> None:
    access: Any = rbac
    await check_rights(access, caller("ann"), caller("ci"), "acme")


async def test_a_user_who_may_do_less_or_as_much_gets_a_key() -> None:
    await check(Rbac())
    await check(Rbac(ann=set(POWERS), ci=set(POWERS[:3])))
    await check(Rbac(ann=set(POWERS), ci=set(POWERS)))


@pytest.mark.parametrize("power", POWERS, ids=str)
async def test_a_user_who_may_do_one_thing_more_gets_none(power: Permission) -> None:
    with pytest.raises(ApiError) as refused:
        await check(Rbac(ann=set(POWERS) - {power}, ci=set(POWERS)))
    assert refused.value.status == 403
    assert f"({power})" in str(refused.value.message)
