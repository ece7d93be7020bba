"""``ctx.state``: what outlives a run."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tieline import State, StateChangedError, StateRefusedError, StateUnavailableError
from tieline.configuration.pod_api import PodApi
from tieline.state.api_documents import ApiDocuments
from tieline.state.documents import SCHEDULES, Document, DocumentChangedError, DocumentScope, MemoryDocuments


@pytest.fixture
def state() -> State:
    return State(MemoryDocuments(), None)


async def test_a_value_is_kept_until_it_is_deleted(state: State) -> None:
    assert await state.get("cursor", "the beginning") == "the beginning"
    await state.set("cursor", {"page": [1, None, "ü"]})
    assert await state.get("cursor") == {"page": [1, None, "ü"]}
    await state.delete("cursor")
    assert await state.get("cursor") is None
    await state.delete("cursor")


async def test_a_value_comes_back_as_json_has_it(state: State) -> None:
    value = {1: (2, 3), "n": [2**70, -0.5]}
    await state.set("cursor", value)
    value[1] = (4,)
    assert await state.get("cursor") == {"1": [2, 3], "n": [2**70, -0.5]}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("key", "value", "expires", "words"),
    [
        (5, 1, None, "must be text in UTF-8, not 5"),
        (None, 1, None, "must be text in UTF-8, not None"),
        (b"k", 1, None, "must be text in UTF-8, not b'k'"),
        ("\ud800", 1, None, "must be text in UTF-8"),
        ("a\0b", 1, None, "must be printable text"),
        ("a/../b", 1, None, "must be printable text"),
        ("k" * 513, 1, None, "1 to 512 bytes"),
        ("k", "\ud800", None, "cannot be kept as JSON: .*surrogates not allowed"),
        ("k", float("nan"), None, "cannot be kept as JSON"),
        ("k", CYCLE, None, "cannot be kept as JSON"),
        ("k", {1, 2}, None, "cannot be kept as JSON"),
        ("k", json.loads("[" * 202 + "]" * 202), None, "in more than 200 others"),
        ("k", "x" * 256 * 1024, None, "at most 262,144 are kept"),
        ("k", 1, "1h", "a timedelta or seconds: expires='1h'"),
        ("k", 1, True, "a timedelta or seconds"),
        ("k", 1, float("nan"), "a timedelta or seconds"),
        ("k", 1, timedelta(days=-1), "a timedelta or seconds"),
        ("k", 1, 1e18, "within ten years"),
        ("k", 1, timedelta.max, "within ten years"),
    ],
)
async def test_what_cannot_be_kept_is_refused_in_words_and_nothing_is_kept(
    state: State, key: Any, value: Any, expires: Any, words: str
) -> None:
    with pytest.raises(StateRefusedError, match=words):
        await state.set(key, value, expires=expires)
    assert await state.keys() == []


@pytest.mark.parametrize("prefix", [5, None, "\ud800"])
async def test_a_prefix_that_is_no_text_is_refused(state: State, prefix: Any) -> None:
    with pytest.raises(StateRefusedError, match="prefix of keys must be text"):
        await state.keys(prefix)


async def test_of_two_that_change_it_at_once_the_second_is_reported(state: State) -> None:
    first, second = await state.entry("count"), await state.entry("count")
    await state.set("count", 1, version=first.version)
    with pytest.raises(StateChangedError, match="read it again"):
        await state.set("count", 1, version=second.version)
    again = await state.entry("count")
    await state.set("count", again.value + 1, version=again.version)
    with pytest.raises(StateChangedError):
        await state.delete("count", version=again.version)
    assert await state.get("count") == 2


async def test_activations_do_not_see_each_others_values() -> None:
    documents = MemoryDocuments()
    await State(documents, "ann").set("cursor", 1)
    assert await State(documents, "ben").get("cursor") is None
    assert await State(documents, None).get("cursor") is None


async def test_what_a_run_does_to_a_value_it_read_is_its_own(state: State) -> None:
    await state.set("list", [1])
    (await state.get("list")).append(2)
    assert await state.get("list") == [1]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("cursor", "x" * 262_143, "262,144"),
        ("cursor", object(), "JSON"),
        ("cursor", float("nan"), "JSON"),
        ("a//b", 1, "key"),
        ("..", 1, "key"),
        ("a\nb", 1, "key"),
        ("", 1, "key"),
        ("ü" * 257, 1, "key"),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_the_reason(
    state: State, key: str, value: Any, says: str
) -> None:
    with pytest.raises(StateRefusedError, match=says):
        await state.set(key, value)


async def test_keys_are_listed_and_counted_by_prefix() -> None:
    documents = MemoryDocuments()
    state = State(documents, None)
    for key in ("orders/2", "orders/1", "cursor", "größe"):
        await state.set(key, 1)
    await State(documents, "ann").set("orders/3", 1)
    assert await state.keys() == ["cursor", "größe", "orders/1", "orders/2"]
    assert await state.keys("orders/") == ["orders/1", "orders/2"]
    assert (await state.count(), await state.count("orders/"), await state.count("no")) == (4, 2, 0)
    await state.delete("orders/1")
    assert await state.keys("orders/") == ["orders/2"]


async def test_a_value_expires_and_is_then_as_if_it_had_never_been() -> None:
    now = 1_000_000.0
    state = State(MemoryDocuments(clock=lambda: now), None)
    await state.set("token", "t", expires=timedelta(minutes=1))
    await state.set("kept", 1, expires=60)
    await state.set("kept", 2)
    entry = await state.entry("token")
    assert entry.expires_at == datetime.fromtimestamp(now + 60, UTC)
    now += 59.9
    assert await state.get("token") == "t"
    now += 0.1
    assert await state.get("token") is None
    assert await state.keys() == ["kept"]
    with pytest.raises(StateChangedError):
        await state.delete("token", version=entry.version)
    await state.set("token", "new", version=None)
    assert await state.get("kept") == 2


@pytest.mark.parametrize("expires", [0, -1, float("nan"), float("inf"), timedelta(0)])
async def test_a_time_that_is_none_is_refused(state: State, expires: float | timedelta) -> None:
    with pytest.raises(StateRefusedError, match="expire"):
        await state.set("token", 1, expires=expires)


class Api:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[tuple[str, str, str | None, Any]] = []
        self.documents: ApiDocuments

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, request.raw_path, request.headers.get("Authorization"), body))
        status, answer = self.answers.pop(0)
        return web.json_response(answer, status=status)


@pytest.fixture
async def api(
    client: aiohttp.ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    monkeypatch.setattr("tieline.state.api_documents._PAUSES", (0.0, 0.0))
    (tmp_path / "token").write_text("pods-token\n")
    found = Api()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.handle)
    server = TestServer(application)
    await server.start_server()
    found.documents = ApiDocuments(PodApi(client, str(server.make_url("")).rstrip("/"), tmp_path / "token"))
    yield found
    await server.close()


async def test_the_api_is_asked_with_the_pods_token_under_the_activations_path(api: Api) -> None:
    api.answers = [
        (200, {"value": 1, "version": "v1"}),
        (404, {"code": "no_value"}),
        (200, {"version": "v2"}),
    ]
    ann = DocumentScope(kind="state", external_id="ann/ü")
    assert await api.documents.get(ann, "cursor") == Document(value=1, version="v1")
    assert await api.documents.get(SCHEDULES, "sync") is None
    assert await api.documents.put(DocumentScope(kind="state"), "cursor", 2, expected="v1") == "v2"
    assert api.asked == [
        ("GET", "/internal/v1/environment/users/ann%2F%C3%BC/state/cursor", "Bearer pods-token", None),
        ("GET", "/internal/v1/environment/schedules/sync", "Bearer pods-token", None),
        (
            "PUT",
            "/internal/v1/environment/state/cursor",
            "Bearer pods-token",
            {"value": 2, "version": "v1"},
        ),
    ]


async def test_the_api_is_asked_for_keys_and_told_when_values_expire(api: Api) -> None:
    api.answers = [
        (200, {"keys": ["orders/1"]}),
        (200, {"keys": []}),
        (200, {"version": "v1"}),
        (200, {"value": 1, "version": "v1", "expiresAt": "2026-11-25T10:00:00Z"}),
    ]
    assert await State(api.documents, None).keys("orders/&") == ["orders/1"]
    assert await State(api.documents, "ann").count() == 0
    await State(api.documents, None).set("orders/1", 1, expires=0.5)
    entry = await State(api.documents, None).entry("orders/1")
    assert entry.expires_at == datetime(2026, 11, 25, 10, tzinfo=UTC)
    assert [(method, path, body) for method, path, _, body in api.asked] == [
        ("GET", "/internal/v1/environment/state?prefix=orders%2F%26", None),
        ("GET", "/internal/v1/environment/users/ann/state?prefix=", None),
        ("PUT", "/internal/v1/environment/state/orders%2F1", {"value": 1, "expires": 1.0}),
        ("GET", "/internal/v1/environment/state/orders%2F1", None),
    ]


async def test_what_is_safe_to_repeat_is_asked_again(api: Api) -> None:
    state = State(api.documents, None)
    api.answers = [(503, {}), (502, {}), (200, {"value": 1, "version": "v1"})]
    assert await state.get("cursor") == 1
    api.answers = [(503, {})] * 3
    with pytest.raises(StateUnavailableError, match="503"):
        await state.set("cursor", 1)
    api.asked.clear()
    api.answers = [(503, {})]
    with pytest.raises(StateUnavailableError):
        await state.set("cursor", 1, version="v1")
    assert len(api.asked) == 1


async def test_answers_that_refuse_say_why(api: Api) -> None:
    api.answers = [(409, {}), (422, {"message": "there is no room for it"})]
    with pytest.raises(DocumentChangedError):
        await api.documents.put(SCHEDULES, "sync", 1, expected=None)
    with pytest.raises(StateRefusedError, match="no room"):
        await api.documents.put(SCHEDULES, "sync", 1, expected=None)
