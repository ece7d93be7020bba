"""Clients that a request gives for auth schemes of an entry."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_api.errors import ApiError
from tieline_api.handlers.catalogue import create_system
from tieline_api.http.operation import Call
from tieline_api.schemas.catalogue import SystemFromEntry


def client(scheme: str) -> dict[str, str]:
    return {"scheme": scheme, "clientId": "app", "clientSecret": "s"}


@pytest.mark.parametrize(
    ("entry", "body", "field"),
    [
        ("github", {"clients": [client("token")]}, "clients[0].scheme"),
        ("github", {"clients": [client("webhooks"), client("oauth")]}, "clients[0].scheme"),
        ("ebay", {"clients": [client("oauth")]}, "clients[0].scheme"),
        ("github", {"clients": [client("oauth"), client("oauth")]}, "clients[1].scheme"),
        ("github", {"clients": [client("oauth")], "schemes": ["token"]}, "clients[0].scheme"),
        ("github", {"clients": [{"scheme": "oauth", "clientId": "app"}]}, "clients[0].clientSecret"),
    ],
    ids=["no OAuth", "a signature", "client credentials", "twice", "not in schemes", "no secret"],
)
async def test_a_client_that_no_scheme_would_have_is_refused(
    entry: str, body: dict[str, Any], field: str
) -> None:
    call = Call(
        platform=cast(Any, SimpleNamespace()),
        organisation=cast(Any, SimpleNamespace(namespace="acme")),
        caller=cast(Any, SimpleNamespace(end_user=None)),
        path={"entry": entry},
        query=None,
        body=SystemFromEntry.model_validate(body),
    )
    with pytest.raises(ApiError) as caught:
        await create_system(call)
    assert (caught.value.status, [one.field for one in caught.value.fields]) == (422, [field])
