"""Whatever happens on the server, to the connection and in this process: in the end the cache tells the truth."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_core.kubernetes import Change, Informer
from tieline_core.kubernetes.resources import CONFIG_MAPS

Object = dict[str, Any]
NAMES = st.sampled_from(["a", "b", "c"])
COLOURS = st.sampled_from(["red", "green", "blue"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, COLOURS),
    st.tuples(st.just("put and observe later"), NAMES, COLOURS),
    st.tuples(st.just("put and observe"), NAMES, COLOURS),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("remove and forget"), NAMES),
    st.tuples(st.just("observe late")),
    st.tuples(st.just("break")),
    st.tuples(st.just("end")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("wait"), st.integers(0, 3)),
)


@given(steps=st.lists(STEPS, max_size=40))
@settings(max_examples=60, derandomize=True)
def test_in_the_end_the_cache_is_what_the_server_has(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[Any, ...]]) -> None:
    async with FakeApiServer.running() as server, server.client() as kube:
        mirror = Informer(kube, CONFIG_MAPS, indexes={"colour": lambda obj: [obj["colour"]]})
        followed: dict[str, Object] = {}
        mirror.subscribe(lambda change: _follow(followed, change))
        await mirror.start()
        late: list[Object] = []
        for step in steps:
            await _step(step, server, mirror, late)
        for answer in late:
            mirror.observe(answer)
        server.bookmark()
        assert await mirror.reached(str(server.revision)), "the cache fell behind"
        truth = {name: obj for (_, name), obj in server.objects.items()}
        await until(lambda: {obj["metadata"]["name"]: obj for obj in mirror.list()} == truth)
        assert followed == truth
        for colour in ("red", "green", "blue"):
            found = {obj["metadata"]["name"] for obj in mirror.by_index("colour", colour)}
            assert found == {name for name, obj in truth.items() if obj["colour"] == colour}
        await mirror.stop()


async def _step(step: tuple[Any, ...], server: FakeApiServer, mirror: Informer, late: list[Object]) -> None:
    match step:
        case ("put", name, colour):
            server.put(name, colour=colour)
        case ("put and observe", name, colour):
            mirror.observe(server.put(name, colour=colour))
        case ("put and observe later", name, colour):
            late.append(server.put(name, colour=colour))
        case ("remove", name) if ("acme", name) in server.objects:
            server.remove(name)
        case ("remove and forget", name) if ("acme", name) in server.objects:
            known = mirror.get("acme", name) or server.objects["acme", name]
            if server.remove(name)["metadata"]["uid"] == known["metadata"]["uid"]:
                mirror.forget(known)
        case ("observe late",) if late:
            mirror.observe(late.pop(0))
        case ("break",):
            server.break_watches()
        case ("end",):
            server.end_watches()
        case ("compact",):
            server.revision += 1
            server.compact()
        case ("bookmark",):
            server.bookmark()
        case ("wait", turns):
            await asyncio.sleep(0.001 * turns)


def _follow(followed: dict[str, Object], change: Change) -> None:
    """What a subscriber knows who has only the changes."""
    name = change.object["metadata"]["name"]
    if change.new is None:
        del followed[name]
    else:
        assert (change.old is None) == (name not in followed)
        followed[name] = change.new
