"""What a real API server answers to writes: created, refused, in conflict, and who owns which field."""

from typing import Any

import pytest

from tieline_core.kubernetes import AlreadyExists, Conflict, Invalid, Kube, NotFound, owned
from tieline_core.kubernetes.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SYSTEMS,
    TOKEN_REVIEWS,
)

pytestmark = pytest.mark.cluster

Object = dict[str, Any]
SHOP: Object = {"name": "Shop", "domain": "shop.example", "templateBaseUrl": "https://api.shop.example"}


def config_map(namespace: str, name: str = "one", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def api_key(identifier: str, name: str = "X-Key") -> Object:
    return {"id": identifier, "type": "api-key", "apiKey": {"name": name, "in": "header"}}


def system(namespace: str, *schemes: Object, **spec: Any) -> Object:
    return {
        "apiVersion": SYSTEMS.api_version,
        "kind": SYSTEMS.kind,
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {**SHOP, "authSchemeConfigs": [*schemes], **spec},
    }


def scheme_ids(obj: Object) -> list[str]:
    return [scheme["id"] for scheme in obj["spec"].get("authSchemeConfigs", ())]


async def test_apply_tells_a_new_object_from_a_known_one(kube: Kube, namespace: str) -> None:
    first = await kube.apply(CONFIG_MAPS, config_map(namespace, a="1"), field_manager="test")
    again = await kube.apply(CONFIG_MAPS, config_map(namespace, a="1"), field_manager="test")
    assert (first.created, again.created) == (True, False)
    version = first.object["metadata"]["resourceVersion"]
    assert again.object["metadata"]["resourceVersion"] == version
    assert kube.requests["apply", "configmaps"] == 2


async def test_a_dry_run_changes_nothing(kube: Kube, namespace: str) -> None:
    tried = await kube.apply(CONFIG_MAPS, config_map(namespace), field_manager="test", dry_run=True)
    assert tried.object["metadata"]["name"] == "one"
    with pytest.raises(NotFound):
        await kube.get(CONFIG_MAPS, "one", namespace)


async def test_a_conflict_names_managers_and_fields(kube: Kube, namespace: str) -> None:
    await kube.apply(CONFIG_MAPS, config_map(namespace, a="1", b="1"), field_manager="gitops")
    with pytest.raises(Conflict) as caught:
        await kube.apply(CONFIG_MAPS, config_map(namespace, a="2", b="2"), field_manager="tieline-api")
    conflicts = caught.value.conflicts
    assert {(conflict.manager, conflict.field) for conflict in conflicts} == {
        ("gitops", ".data.a"),
        ("gitops", ".data.b"),
    }
    forced = await kube.apply(
        CONFIG_MAPS, config_map(namespace, a="2"), field_manager="tieline-api", force=True
    )
    assert forced.object["data"] == {"a": "2", "b": "1"}


async def test_a_conflict_on_a_secret_names_manager_and_field_and_no_value(
    kube: Kube, namespace: str
) -> None:
    def secret(value: str) -> Object:
        return {"metadata": {"name": "key", "namespace": namespace}, "stringData": {"value": value}}

    await kube.apply(SECRETS, secret("hunter1"), field_manager="gitops")
    with pytest.raises(Conflict) as caught:
        await kube.apply(SECRETS, secret("hunter2"), field_manager="tieline-api")
    assert caught.value.conflicts
    assert {conflict.manager for conflict in caught.value.conflicts} == {"gitops"}
    assert "hunter" not in f"{caught.value} {caught.value.causes}"


async def test_a_refused_secret_is_not_quoted(kube: Kube, namespace: str) -> None:
    metadata = {"name": "key", "namespace": namespace}
    with pytest.raises(Invalid) as caught:
        await kube.create(
            SECRETS, {"metadata": metadata, "type": "kubernetes.io/tls", "data": {"hunter 2": "aHVudGVyMg=="}}
        )
    assert "aHVudGVyMg" not in f"{caught.value} {caught.value.causes}"
    with pytest.raises(Invalid) as caught:
        await kube.create(SECRETS, {"metadata": metadata, "data": {"value": "hunter2 is not base64"}})
    assert "hunter2" not in f"{caught.value} {caught.value.causes}"


async def test_what_a_manager_owns_can_be_changed_and_applied_again(kube: Kube, namespace: str) -> None:
    await kube.apply(
        SYSTEMS,
        system(namespace, api_key("header"), api_key("query"), labels={"team": "ops", "old": "yes"}),
        field_manager="tieline-api",
    )
    live = await kube.get(SYSTEMS, "shop", namespace)
    mine = owned(live, "tieline-api")
    assert mine == system(
        namespace, api_key("header"), api_key("query"), labels={"team": "ops", "old": "yes"}
    )

    mine["spec"]["domain"] = "shop.test"
    mine["spec"]["authSchemeConfigs"][0]["apiKey"]["name"] = "X-New"
    mine["spec"]["authSchemeConfigs"].append(api_key("third"))
    del mine["spec"]["labels"]["old"]
    changed = (await kube.apply(SYSTEMS, mine, field_manager="tieline-api")).object
    assert changed["spec"] == {
        **SHOP,
        "domain": "shop.test",
        "labels": {"team": "ops"},
        "authSchemeConfigs": [api_key("header", "X-New"), api_key("query"), api_key("third")],
    }
    assert owned(changed, "tieline-api") == mine


async def test_what_is_not_applied_again_is_dropped(kube: Kube, namespace: str) -> None:
    first = system(namespace, api_key("header"), api_key("query"))
    await kube.apply(SYSTEMS, first, field_manager="tieline-api")
    mine = owned(await kube.get(SYSTEMS, "shop", namespace), "tieline-api")
    mine["spec"]["authSchemeConfigs"] = [
        scheme for scheme in mine["spec"]["authSchemeConfigs"] if scheme["id"] != "header"
    ]
    changed = (await kube.apply(SYSTEMS, mine, field_manager="tieline-api")).object
    assert scheme_ids(changed) == ["query"]


async def test_other_managers_items_are_neither_taken_nor_lost(kube: Kube, namespace: str) -> None:
    await kube.apply(SYSTEMS, system(namespace, api_key("theirs")), field_manager="gitops")
    mine = system(namespace, api_key("mine"), api_key("mine too"))
    for field in SHOP:
        del mine["spec"][field]
    both = (await kube.apply(SYSTEMS, mine, field_manager="tieline-api", field_validation="Strict")).object
    assert sorted(scheme_ids(both)) == ["mine", "mine too", "theirs"]
    assert scheme_ids(owned(both, "tieline-api")) == ["mine", "mine too"]
    assert scheme_ids(owned(both, "gitops")) == ["theirs"]

    again = owned(both, "tieline-api")
    again["spec"]["authSchemeConfigs"].pop()
    less = (await kube.apply(SYSTEMS, again, field_manager="tieline-api")).object
    assert sorted(scheme_ids(less)) == ["mine", "theirs"]
    assert less["spec"]["name"] == "Shop"

    taken = {**again, "spec": {"authSchemeConfigs": [api_key("theirs", "X-Mine")]}}
    with pytest.raises(Conflict) as caught:
        await kube.apply(SYSTEMS, taken, field_manager="tieline-api")
    (conflict,) = caught.value.conflicts
    assert conflict.manager == "gitops"
    assert conflict.field == '.spec.authSchemeConfigs[id="theirs"].apiKey.name'


async def test_a_write_of_an_old_version_conflicts(kube: Kube, namespace: str) -> None:
    first = await kube.create(CONFIG_MAPS, config_map(namespace, a="1"))
    await kube.patch(CONFIG_MAPS, "one", namespace, {"data": {"a": "2"}})
    with pytest.raises(Conflict) as caught:
        await kube.replace(CONFIG_MAPS, {**first, "data": {"a": "3"}})
    assert caught.value.conflicts == []
    stale = config_map(namespace, a="3")
    stale["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await kube.apply(CONFIG_MAPS, stale, field_manager="test")
    assert (await kube.get(CONFIG_MAPS, "one", namespace))["data"] == {"a": "2"}


async def test_unknown_fields_are_refused(kube: Kube, namespace: str) -> None:
    with pytest.raises(Invalid, match="nonsense"):
        await kube.apply(SYSTEMS, system(namespace, nonsense=1), field_manager="test")
    with pytest.raises(Invalid, match="nonsense"):
        await kube.create(CONFIG_MAPS, {**config_map(namespace), "nonsense": 1})


async def test_wrong_fields_are_refused_with_their_places(kube: Kube, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await kube.apply(SYSTEMS, system(namespace, name=7, domain=["x"]), field_manager="test")
    text = f"{caught.value} {caught.value.causes}"
    assert "name" in text
    wrong = config_map(namespace, name="Not A Name")
    with pytest.raises(Invalid) as caught:
        await kube.create(CONFIG_MAPS, wrong)
    assert [cause["field"] for cause in caught.value.causes] == ["metadata.name"]


async def test_patches_change_a_part(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, a="1", b="1"))
    merged = await kube.patch(CONFIG_MAPS, "one", namespace, {"data": {"a": None, "c": "3"}})
    assert merged["data"] == {"b": "1", "c": "3"}
    steps = [{"op": "test", "path": "/data/b", "value": "1"}, {"op": "remove", "path": "/data/b"}]
    patched = await kube.patch(CONFIG_MAPS, "one", namespace, steps, kind="json")
    assert patched["data"] == {"c": "3"}
    with pytest.raises(Invalid):
        await kube.patch(CONFIG_MAPS, "one", namespace, steps, kind="json")


async def test_a_name_is_given_once(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace))
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIG_MAPS, config_map(namespace))


async def test_only_the_very_object_that_is_meant_is_deleted(kube: Kube, namespace: str) -> None:
    made = await kube.create(CONFIG_MAPS, config_map(namespace))
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await kube.delete(CONFIG_MAPS, "one", namespace, uid="another")
    await kube.patch(CONFIG_MAPS, "one", namespace, {"data": {"a": "2"}})
    with pytest.raises(Conflict):
        await kube.delete(CONFIG_MAPS, "one", namespace, uid=uid, resource_version=version)
    await kube.delete(CONFIG_MAPS, "one", namespace, uid=uid)
    with pytest.raises(NotFound):
        await kube.delete(CONFIG_MAPS, "one", namespace, uid=uid)


async def test_names_that_are_no_names_reach_no_other_object(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace))
    for name in ("", "..", "../configmaps/one", "one/", "%6fne"):
        with pytest.raises(Invalid):
            await kube.delete(CONFIG_MAPS, name, namespace)
    for name in ("one?x", "one#x", "öne", "a b"):
        with pytest.raises(NotFound):
            await kube.get(CONFIG_MAPS, name, namespace)
    assert (await kube.get(NAMESPACES, namespace))["metadata"]["name"] == namespace


async def test_a_service_account_gets_a_token_that_the_server_knows(kube: Kube, namespace: str) -> None:
    await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "orders", "namespace": namespace}})
    request = {"metadata": {"namespace": namespace}, "spec": {"audiences": ["tieline"]}}
    answer = await kube.create(SERVICE_ACCOUNTS, request, name="orders", subresource="token")
    review = await kube.create(
        TOKEN_REVIEWS, {"spec": {"token": answer["status"]["token"], "audiences": ["tieline"]}}
    )
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:orders"
