"""The Secrets that tokens are kept in: made by the platform, or left alone."""

from typing import Any

import pytest

from tests.unit.oauth.token_shop import Provider, Shop, kept
from tieline_core.credentials.token_manager import SecretTakenError
from tieline_core.identity.names import tokens_name
from tieline_protocol.oauth.token_client import UnreachableError


async def test_the_tokens_of_a_deleted_connection_are_not_handed_to_its_successor(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.connection["metadata"]["uid"] = "another"
    with pytest.raises(UnreachableError):
        await kept(token_manager, shop)
    del shop.kube.objects["Secret", "acme", tokens_name("login", "main")]
    assert (await kept(token_manager, shop)).access_token == "at2"


def _foreign(**metadata: Any) -> dict[str, Any]:
    """Somebody's Secret of the name that the tokens would be kept under."""
    named = {"name": tokens_name("login", "main"), "namespace": "acme", "uid": "theirs", **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": named,
        "type": "Opaque",
        "data": {"mine": "eA=="},
    }


OWNED = {"ownerReferences": [{"kind": "Connection", "name": "login", "uid": "uid-login"}]}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        OWNED,
        {"labels": {"tieline.dev/tokens": "true"}},
        {**OWNED, "labels": {"tieline.dev/tokens": "no"}},
    ],
    ids=["a stranger's", "owned without the label", "labelled and of nobody", "labelled otherwise"],
)
async def test_a_secret_of_the_name_that_the_platform_has_not_made_is_left_alone_and_told(
    provider: Provider, token_manager_of: Any, metadata: dict[str, Any]
) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    shop.connection["metadata"]["uid"] = "uid-login"
    before = shop.kube.put(_foreign(**metadata))
    with pytest.raises(SecretTakenError) as caught:
        await kept(token_manager_of(shop), shop)
    assert caught.value.problems[0].reason == "SecretNameTaken"
    assert "delete it" in str(caught.value)
    assert shop.tokens_secret == before
    assert provider.asked == []
    assert (await shop.states.peek(state, namespace="acme")).client_id == "app", "and may be used afterwards"


async def test_a_stranger_who_is_first_by_a_moment_is_left_alone_too(
    provider: Provider, token_manager_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    create = shop.kube.create

    async def taken_first(resource: Any, obj: Any) -> Any:
        shop.kube.put(_foreign())
        return await create(resource, obj)

    monkeypatch.setattr(shop.kube, "create", taken_first)
    with pytest.raises(SecretTakenError):
        await kept(token_manager_of(shop), shop)
    assert shop.tokens_secret["data"] == {"mine": "eA=="}
    assert provider.asked == []
