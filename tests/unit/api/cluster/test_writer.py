"""Writing beside others: who owns what, and what is tried again."""

from typing import Any

import pytest

from tests.harness.processes import engine_away
from tieline_api.cluster.etags import etag, matches, unchanged
from tieline_api.cluster.field_managers import other_managers
from tieline_api.cluster.writer import TRIES, IdTakenError, Writer, refuse_removal
from tieline_api.errors import ApiError
from tieline_api.settings import Settings
from tieline_core.environment_settings import SettingsError
from tieline_core.kubernetes import Applied, Conflict, Resource
from tieline_core.kubernetes.resources import SYSTEMS

LIVE: dict[str, Any] = {
    "apiVersion": "tieline.dev/v1alpha1",
    "kind": "System",
    "metadata": {
        "name": "shop",
        "namespace": "acme",
        "resourceVersion": "7",
        "managedFields": [
            {
                "manager": "argocd",
                "operation": "Apply",
                "fieldsV1": {"f:spec": {"f:name": {}, "f:authSchemeConfigs": {'k:{"id":"git"}': {".": {}}}}},
            },
            {
                "manager": "tieline-api",
                "operation": "Apply",
                "fieldsV1": {
                    "f:spec": {"f:domain": {}, "f:authSchemeConfigs": {'k:{"id":"mine"}': {".": {}}}}
                },
            },
            {
                "manager": "tieline-operator",
                "operation": "Apply",
                "subresource": "status",
                "fieldsV1": {"f:spec": {"f:domain": {}}},
            },
        ],
    },
    "spec": {"name": "Shop", "domain": "shop.example"},
}


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        (("spec", "name"), ["argocd"]),
        (("spec", "domain"), []),
        (("spec", "templateBaseUrl"), []),
        (("spec", "authSchemeConfigs", {"id": "git"}), ["argocd"]),
        (("spec", "authSchemeConfigs", {"id": "mine"}), []),
        (("spec", "authSchemeConfigs"), ["argocd"]),
    ],
)
def test_the_books_tell_who_owns_a_field(path: tuple[Any, ...], managers: list[str]) -> None:
    assert other_managers(LIVE, path) == managers


def test_what_others_own_is_not_removed() -> None:
    refuse_removal(LIVE, ("domain",), what="The domain")
    with pytest.raises(ApiError) as caught:
        refuse_removal(LIVE, ("name",), what="The name")
    assert caught.value.status == 409
    assert '"argocd"' in caught.value.message


class Server:
    """An API server where somebody else writes ``busy`` times in between."""

    def __init__(self, busy: int = 0, conflict: Conflict | None = None) -> None:
        self.busy = busy
        self.conflict = conflict or Conflict("changed", status=409)
        self.applied: list[dict[str, Any]] = []

    async def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        return {**LIVE, "metadata": {**LIVE["metadata"], "resourceVersion": str(7 + len(self.applied))}}

    async def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> Applied:
        self.applied.append(obj)
        if len(self.applied) <= self.busy:
            raise self.conflict
        return Applied(object={**LIVE, **obj}, created=False)


class Informer:
    resource = SYSTEMS

    def observe(self, obj: dict[str, Any]) -> None:
        self.seen = obj

    def by_index(self, _index: str, _key: str) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize("chosen", [True, False])
async def test_an_id_that_somebody_chose_is_created_only_where_nothing_is(chosen: bool) -> None:
    server = Server(busy=1)
    with pytest.raises(IdTakenError) as caught:
        await Writer(server).create(  # type: ignore[arg-type]
            Informer(),  # type: ignore[arg-type]
            "acme",
            "01JD3Y7M5RZX9KQW8T2V4N6P0A",
            {},
            chosen_by_client=chosen,
        )
    assert (caught.value.status, caught.value.code) == (409, "conflict")
    # Only an apply with a version tells a new object from one that is there.
    assert ("resourceVersion" in server.applied[0]["metadata"]) is chosen


async def _no_pause(_seconds: float) -> None:
    return


async def _rename(server: Server, **options: Any) -> dict[str, Any]:
    def change(_live: dict[str, Any], mine: dict[str, Any]) -> None:
        mine["spec"]["name"] = "New"

    writer = Writer(server, pause=_no_pause)  # type: ignore[arg-type]
    return await writer.change(Informer(), "acme", "shop", change, **options)  # type: ignore[arg-type]


async def test_a_change_sends_what_is_ours_and_the_change_for_the_version_that_was_read() -> None:
    server = Server()
    await _rename(server)
    sent = server.applied[0]
    assert sent["spec"]["domain"] == "shop.example", "what is ours is repeated, or it would be removed"
    assert sent["spec"]["name"] == "New"
    assert sent["metadata"]["resourceVersion"] == "7"


async def test_concurrent_writes_make_the_change_be_computed_again() -> None:
    server = Server(busy=TRIES - 1)
    await _rename(server)
    assert [obj["metadata"]["resourceVersion"] for obj in server.applied] == ["7", "8", "9", "10", "11"]


async def test_it_is_given_up_after_some_tries() -> None:
    server = Server(busy=TRIES)
    with pytest.raises(Conflict):
        await _rename(server)
    assert len(server.applied) == TRIES


async def test_a_field_of_others_is_not_tried_again() -> None:
    cause = {"reason": "FieldManagerConflict", "field": ".spec.name", "message": 'conflict with "argocd"'}
    server = Server(busy=9, conflict=Conflict("conflict", status=409, causes=(cause,)))
    with pytest.raises(Conflict):
        await _rename(server)
    assert len(server.applied) == 1


async def test_if_match_is_for_one_state_only() -> None:
    with pytest.raises(ApiError) as caught:
        await _rename(Server(), if_match='"6"')
    assert caught.value.status == 412
    with pytest.raises(ApiError) as caught:
        await _rename(Server(busy=1), if_match='"7"')
    assert caught.value.status == 412
    await _rename(Server(), if_match='"7"')


def test_etags_of_answers_about_several_objects_match_by_the_first() -> None:
    system = {"metadata": {"resourceVersion": "3"}}
    shown = etag(LIVE, system, None)
    assert shown == '"7-3"'
    assert matches(shown, "7")
    assert matches('"1", W/"7"', "7")
    assert matches("*", "7")
    assert not matches('"3"', "7")
    assert unchanged(shown, shown)
    assert not unchanged('"7-2"', shown)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIELINE_LISTEN_PORT", "0"),
        ("TIELINE_LISTEN_PORT", "x"),
        ("TIELINE_ACCESS_CACHE_SECONDS", "61"),
        ("TIELINE_CORS_ORIGINS", "https://a.example/path"),
        ("TIELINE_CORS_ORIGINS", "*"),
        ("TIELINE_LOG_LEVEL", "loud"),
        ("TIELINE_TRUSTED_PROXIES", "10.0.0.0/33"),
        ("TIELINE_FAILED_LIMIT", "-1"),
        ("TIELINE_BODY_MEBIBYTES", "65"),
        ("TIELINE_BODY_SECONDS", "0"),
        ("TIELINE_REQUEST_ID_HEADER", "Not a header"),
    ],
)
def test_a_setting_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment({**engine_away.VARIABLES, name: value})


def test_everything_that_is_wrong_is_told_at_once_and_no_url_is_repeated() -> None:
    wrong = {
        "TIELINE_LISTEN_PORT": "0",
        "TIELINE_TRACES_OTLP_URL": "ftp://user:s3cr3t@x",
        "TIELINE_EGRESS_ALLOWED": "10.0.0.1/8",
        "TIELINE_LOG_LEVEL": "loud",
    }
    with pytest.raises(SettingsError) as error:
        Settings.from_environment(wrong)
    assert all(name in str(error.value) for name in (*wrong, *engine_away.VARIABLES))
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"TIELINE_METRICS_PORT": "8080"}, "must be different ports"),
        ({"TIELINE_TRACES_STORE": "tempo"}, "TIELINE_TRACES_STORE=tempo needs TIELINE_TRACES_OTLP_URL and "),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(told: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.from_environment({**engine_away.VARIABLES, **told})


def test_settings_have_defaults_and_are_read() -> None:
    assert Settings.from_environment(engine_away.VARIABLES) == engine_away.api_settings()
    read = Settings.from_environment(
        {
            **engine_away.VARIABLES,
            "TIELINE_CORS_ORIGINS": "https://a.example, https://B.example:8443",
            "TIELINE_TOKEN_AUDIENCES": "a,b",
            "TIELINE_BODY_MEBIBYTES": "0.5",
            "TIELINE_REQUEST_ID_HEADER": "X-Correlation-Id",
        }
    )
    assert read.cors_origins == {"https://a.example", "https://b.example:8443"}
    assert read.token_audiences == ("a", "b")
    assert (read.sizes.body, read.sizes.files) == (512 * 1024, 24 * 1024 * 1024)
    assert read.request_id_header == "X-Correlation-Id"


@pytest.mark.parametrize(
    ("told", "served"), [("", None), ("acme", "acme"), (" acme ,", "acme"), ("acme,other", None)]
)
def test_one_namespace_is_served_alone_and_several_like_all(told: str, served: str | None) -> None:
    assert (
        Settings.from_environment({**engine_away.VARIABLES, "TIELINE_NAMESPACES": told}).namespace == served
    )
