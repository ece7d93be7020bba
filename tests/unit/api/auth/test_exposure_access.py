"""Who may let code read the credentials of a connection."""

import pytest

from tests.harness.inputs.exposure_changes import CASES, OPEN, Case
from tests.harness.inputs.reference_changes import connection, key, oauth1, own
from tieline_api.auth.authentication import Caller
from tieline_api.auth.exposure_access import check_exposure, opens_to_code
from tieline_api.auth.permissions import Permission
from tieline_api.errors import ApiError


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_change_opens_credentials_to_code(case: Case) -> None:
    assert opens_to_code(case.before, case.after) is case.opens


def test_who_sends_new_values_of_an_open_connection_opens_nothing_else() -> None:
    rotated = connection(key(secret="new"), exposeToCode=True)
    assert not opens_to_code(OPEN, rotated, staged=["new"])
    assert opens_to_code(OPEN, rotated, staged=["another"])
    assert opens_to_code(None, rotated, staged=["new"])
    other = connection(key(secret="new", type="basic-auth"), exposeToCode=True)
    assert opens_to_code(OPEN, other, staged=["new"])
    replaced = connection(key("another-id", secret="new"), exposeToCode=True)
    assert not opens_to_code(OPEN, replaced, staged=["new"])


def test_new_values_do_not_bring_the_consumer_of_another_scheme_with_them() -> None:
    # A scheme of OAuth 1.0 gives pods its consumer's secret, which whoever sends a token does not know.
    by_system = connection(key(secret="new", authSchemeConfigId="oauth1-of-the-system"), exposeToCode=True)
    assert opens_to_code(OPEN, by_system, staged=["new"])
    more = connection(
        key(), key("two", secret="new", authSchemeConfigId="oauth1-of-the-system"), exposeToCode=True
    )
    assert opens_to_code(OPEN, more, staged=["new"])
    signed = connection(own(oauth1(secretRef={"name": "consumer"}), "string"), exposeToCode=True)
    rotated = connection(own(oauth1(secretRef={"name": "consumer"}), "string", "new"), exposeToCode=True)
    assert not opens_to_code(signed, rotated, staged=["new"])
    elsewhere = connection(own(oauth1(secretRef={"name": "of-others"}), "string", "new"), exposeToCode=True)
    assert opens_to_code(signed, elsewhere, staged=["new"])
    assert not opens_to_code(signed, elsewhere, staged=["new", "of-others"])


class _Access:
    def __init__(self, *names: str) -> None:
        self._names = names

    async def allowed(self, _caller: Caller, _namespace: str, permission: Permission) -> bool:
        assert (permission.verb, permission.resource, permission.group) == (
            "expose",
            "connections",
            "tieline.dev",
        )
        return permission.name in self._names


@pytest.mark.parametrize(
    ("names", "allowed"), [((), False), (("",), True), (("shop",), True), (("crm",), False)]
)
async def test_the_right_is_on_all_connections_or_on_this_one(names: tuple[str, ...], allowed: bool) -> None:
    call = check_exposure(_Access(*names), Caller(username="ann"), "acme", "shop")  # type: ignore[arg-type]
    if allowed:
        await call
        return
    with pytest.raises(ApiError) as refused:
        await call
    assert refused.value.status == 403
    assert "tieline-admin" in refused.value.message
