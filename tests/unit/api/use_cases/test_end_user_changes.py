"""What a change that an end user makes of their connection does to its variables."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.oauth.memory_lookups import make
from tieline_api.auth.end_users import EndUserScope
from tieline_api.dependencies import Dependencies
from tieline_api.http.operation import Call
from tieline_api.schemas.connections import ConnectionUpdate
from tieline_api.use_cases.end_user_checks import updated_connection

SYSTEM = make(
    "System",
    "shop",
    templateBaseUrl="https://{shop}.{region}.shop.example",
    inputs=[{"name": "shop"}, {"name": "region"}],
)
LIVE = {"shop": "mine", "region": "eu", "account": "17"}


async def written(body: dict[str, Any], **scope: Any) -> dict[str, str] | None:
    """The variables that the connection gets; None where they stay."""
    connection = make("Connection", "one", variables=LIVE, endUserRef={"name": "ann"})
    cluster = SimpleNamespace(
        connections=None,
        systems=None,
        find=lambda *_: connection,
        referred=lambda *_: SYSTEM,
        external_user=lambda *_: make("ExternalUser", "ann"),
    )
    call = Call(
        platform=cast(Dependencies, SimpleNamespace(cluster=cluster)),
        organisation=cast(Any, SimpleNamespace(namespace="acme")),
        caller=cast(Any, SimpleNamespace(end_user=EndUserScope(external_id="ann", **scope))),
        path={"connection_id": "one"},
        query=None,
        body=ConnectionUpdate.model_validate(body),
    )
    variables = (await updated_connection(call)).body.variables
    return None if variables is None else {one.name: one.value for one in variables}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {"region": "eu", "account": "17"}),
        ([{"name": "shop", "value": "mine"}], LIVE),
        ([{"name": "shop", "value": "new"}], {**LIVE, "shop": "new"}),
        (None, None),
    ],
    ids=["none", "the user's own", "a new value", "left out"],
)
async def test_variables_that_a_user_may_not_set_stay(given: Any, expected: dict[str, str] | None) -> None:
    body = {} if given is None else {"variables": given}
    assert await written(body, variables=(("region", "eu"),)) == expected


async def test_an_empty_list_leaves_what_the_user_may_not_set() -> None:
    assert await written({"variables": []}, inputs=frozenset()) == LIVE
