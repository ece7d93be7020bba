"""A watch as it comes over the wire: in pieces, long, broken, silent, refused."""

from typing import Any

import pytest

from tests.unit.kubernetes.fake_api_server import FakeApiServer, line, refuse, status_object, stream
from tieline_core.kubernetes import Gone, Invalid, Kube, NotFound, Unavailable, WatchEvent
from tieline_core.kubernetes.resources import CONFIG_MAPS, SECRETS, Resource


def config_map(name: str, version: int, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "acme", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **content}


async def watched(kube: Kube, resource: Resource = CONFIG_MAPS, version: str = "1") -> list[WatchEvent]:
    """All events until the server ends the watch."""
    return [event async for event in kube.watch(resource, "acme", resource_version=version)]


async def test_events_arrive_whole_however_they_are_cut(server: FakeApiServer, kube: Kube) -> None:
    wire = line("ADDED", config_map("one", 2)) + b"\n" + line("DELETED", config_map("zwölf", 3))
    server.watch_answers.append(stream(*(wire[at : at + 7] for at in range(0, len(wire), 7))))
    events = await watched(kube)
    assert [(event.type, event.object["metadata"]["name"]) for event in events] == [
        ("ADDED", "one"),
        ("DELETED", "zwölf"),
    ]


async def test_many_events_in_one_piece_are_all_seen(server: FakeApiServer, kube: Kube) -> None:
    server.watch_answers.append(stream(b"".join(line("ADDED", config_map(f"n{n}", n)) for n in range(50))))
    assert [event.object["metadata"]["name"] for event in await watched(kube)] == [f"n{n}" for n in range(50)]


async def test_an_event_of_more_than_a_mebibyte_is_seen(server: FakeApiServer, kube: Kube) -> None:
    big = "x" * (3 * 1024 * 1024)
    server.watch_answers.append(stream(line("ADDED", config_map("big", 2, data={"file": big}))))
    (event,) = await watched(kube)
    assert event.object["data"]["file"] == big


async def test_objects_in_events_say_what_they_are(server: FakeApiServer, kube: Kube) -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", **config_map("one", 2)}
    server.watch_answers.append(stream(line("ADDED", partial)))
    (event,) = await watched(kube)
    assert (event.object["apiVersion"], event.object["kind"]) == ("v1", "ConfigMap")


async def test_a_watch_asks_for_bookmarks_and_for_its_end(server: FakeApiServer, kube: Kube) -> None:
    server.watch_answers.append(stream())
    await watched(kube, version="17")
    query = server.seen[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "17"
    assert 290 <= int(query["timeoutSeconds"]) <= 310


async def test_an_event_that_was_cut_off_is_not_seen(server: FakeApiServer, kube: Kube) -> None:
    whole = line("ADDED", config_map("one", 2))
    server.watch_answers.append(stream(whole + line("ADDED", config_map("two", 3))[:-1]))
    assert [event.object["metadata"]["name"] for event in await watched(kube)] == ["one"]


async def test_a_broken_watch_is_unavailable_after_the_events_before(
    server: FakeApiServer, kube: Kube
) -> None:
    server.watch_answers.append(stream(line("ADDED", config_map("one", 2)), then_break=True))
    events = kube.watch(CONFIG_MAPS, resource_version="1")
    assert (await anext(events)).object["metadata"]["name"] == "one"
    with pytest.raises(Unavailable):
        await anext(events)


async def test_a_silent_watch_is_unavailable(server: FakeApiServer) -> None:
    async with server.client(watch_silence=0.05) as kube:
        with pytest.raises(Unavailable):
            await watched(kube, version="100")


@pytest.mark.parametrize("garbage", [b"<html>\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"object": {}}\n'])
async def test_what_is_no_event_is_unavailable(garbage: bytes, server: FakeApiServer, kube: Kube) -> None:
    server.watch_answers.append(stream(garbage))
    with pytest.raises(Unavailable):
        await watched(kube)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(410, "Expired", Gone), (410, "Gone", Gone), (500, "InternalError", Unavailable)],
)
async def test_an_error_in_the_watch_is_raised(
    code: int, reason: str, error: type[Exception], server: FakeApiServer, kube: Kube
) -> None:
    server.watch_answers.append(stream(line("ERROR", status_object(code, reason, "too old"))))
    with pytest.raises(error, match="too old"):
        await watched(kube)


@pytest.mark.parametrize(
    ("code", "reason", "error"), [(404, "NotFound", NotFound), (410, "Expired", Gone), (400, "Bad", Invalid)]
)
async def test_a_watch_that_is_refused_says_why(
    code: int, reason: str, error: type[Exception], server: FakeApiServer, kube: Kube
) -> None:
    server.watch_answers.append(refuse(code, reason))
    with pytest.raises(error):
        await watched(kube)


async def test_errors_in_a_watch_of_secrets_hold_no_words_of_the_server(
    server: FakeApiServer, kube: Kube
) -> None:
    for answer in (
        stream(line("ERROR", status_object(500, "InternalError", "cannot decode hunter2"))),
        stream(b'{"type": "ADDED", "object": {"data": {"password": "hunter2"\n'),
        refuse(500, "InternalError", "cannot decode hunter2"),
    ):
        server.watch_answers.append(answer)
        with pytest.raises(Unavailable) as caught:
            await watched(kube, SECRETS)
        assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
