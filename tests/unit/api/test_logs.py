"""Logs: lines of several pods in the order of time, in pages that lose and repeat nothing."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_api.errors import ApiError
from tieline_api.logs import paging, pods
from tieline_api.logs.lines import Line, entry, split
from tieline_api.logs.paging import LogFilter
from tieline_core.identity.names import VERSION_ANNOTATION
from tieline_core.kubernetes import KubeError, Resource, Unavailable

NS = "2026-11-21T10:00:{:02d}.{:09d}Z"


def _stamp(second: int, nano: int = 0) -> str:
    return NS.format(second, nano)


def _said(text: str, *, failed: bool = False) -> Any:
    return entry(Line((_stamp(1, 123456789), "pod/000000", 0), text, failed=failed))


def test_a_line_of_the_runtime_is_an_entry_with_its_fields_and_execution() -> None:
    said = _said(
        '{"timestamp":"x","severity":"WARNING","message":"Late","executionId":"01J","fields":{"order":"A"},'
        '"error":"Traceback","httpRequest":{"method":"POST"}}'
    )
    assert (said.severity, said.message, said.error) == ("WARNING", "Late", "Traceback")
    assert said.fields == {"executionId": "01J", "order": "A"}
    assert said.http_request == {"method": "POST"}
    assert said.timestamp == "2026-11-21T10:00:01.123Z"


@pytest.mark.parametrize("text", ["plain", "{broken", '{"no": "message"}', '{"message": 1}', "[1]", ""])
def test_any_other_line_is_a_message_as_it_is(text: str) -> None:
    assert (_said(text).message, _said(text).severity) == (text, "INFO")
    assert _said(text, failed=True).severity == "ERROR"


def test_letters_that_steer_terminals_are_taken_out() -> None:
    assert _said("a\x1b[31mb\x00").message == "a[31mb"


def test_times_of_any_offset_and_precision_sort() -> None:
    text = (
        "2026-11-21T11:00:01.5+01:00 a\n2026-11-21T10:00:02Z b\nrest of b\n2026-11-21T10:00:03.000000001Z c"
    )
    lines = [*split(text, source="pod/000000", whole=False)]
    assert [line.key[0] for line in lines] == [_stamp(1, 500_000_000), _stamp(2), _stamp(2)]
    assert [line.text for line in lines] == ["a", "b", "rest of b"]


class Cluster:
    """Logs as the API server keeps them, with its rules for sinceTime, tailLines and limitBytes."""

    def __init__(self, texts: dict[str, list[tuple[str, str]]], *, restarts: int = 0) -> None:
        self.texts = texts
        self.restarts = restarts
        self.away: set[str] = set()

    async def list(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str | None = None
    ) -> list[dict[str, Any]]:
        status: dict[str, Any] = {"name": "runtime", "restartCount": self.restarts, "state": {"running": {}}}
        if self.restarts:
            status["lastState"] = {"terminated": {"exitCode": 1}}
        return [
            {
                "metadata": {
                    "name": name,
                    "namespace": "acme",
                    "creationTimestamp": _stamp(0),
                    "annotations": {VERSION_ANNOTATION: f"of-{name}"},
                },
                "status": {"containerStatuses": [status]},
            }
            for name in self.texts
            if "-previous" not in name
        ]

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        previous: bool = False,
        tail_lines: int | None = None,
        since_time: str | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
    ) -> str:
        if pod in self.away:
            raise Unavailable("kubelet away")
        if f"{pod}-gone" in self.away:
            raise KubeError("waiting to start", status=400)
        rows = self.texts.get(f"{pod}-previous", []) if previous else self.texts[pod]
        if since_time:
            rows = [row for row in rows if f"{row[0][:19]}Z" >= since_time]
        rows = rows[-tail_lines:] if tail_lines is not None else rows
        text = "".join(f"{time} {content}\n" for time, content in rows)
        return text.encode()[:limit_bytes].decode(errors="replace")


async def _pages(cluster: Cluster, wanted: LogFilter) -> list[list[str]]:
    pages: list[list[str]] = []
    while True:
        readings, _ = await pods.read(cluster, "acme", "env", wanted)
        found = paging.page(readings, wanted)
        pages.append([one.message for one in found.entries])
        if found.last is None:
            return pages
        assert len(pages) < 2000
        key = paging.decode("env", wanted.order, paging.encode("env", wanted.order, found.last))
        wanted = LogFilter(
            order=wanted.order,
            first=wanted.first,
            start=wanted.start,
            end=wanted.end,
            search=wanted.search,
            severity=wanted.severity,
            beyond=key,
        )


@settings(max_examples=60)
@given(
    moments=st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=15), max_size=3),
    first=st.integers(1, 7),
    order=st.sampled_from(["asc", "desc"]),
    limit=st.sampled_from([120, 400, 10_000]),
)
async def test_pages_hold_every_line_once_and_in_order(
    moments: list[list[tuple[int, int]]], first: int, order: Any, limit: int
) -> None:
    texts = {
        f"pod-{number}": [
            (_stamp(*moment), f"{number}:{index}") for index, moment in enumerate(sorted(times))
        ]
        for number, times in enumerate(moments)
    }
    with pytest.MonkeyPatch.context() as patched:
        if order == "asc":
            patched.setattr(pods, "LIMIT", limit)
            patched.setattr(pods, "_LEAST", limit)
        pages = await _pages(Cluster(texts), LogFilter(order=order, first=first))
    said = [message for page in pages for message in page]
    assert sorted(said) == sorted(text for rows in texts.values() for _, text in rows)
    times = {text: time for rows in texts.values() for time, text in rows}
    assert [times[text] for text in said] == sorted(times.values(), reverse=order == "desc")
    assert all(len(page) <= first for page in pages)


async def test_what_a_container_wrote_before_it_crashed_comes_first() -> None:
    cluster = Cluster(
        {"pod": [(_stamp(5), "again")], "pod-previous": [(_stamp(1), "boom"), (_stamp(2), "dead")]},
        restarts=1,
    )
    assert await _pages(cluster, LogFilter(order="asc", first=10)) == [["boom", "dead", "again"]]
    readings, _ = await pods.read(cluster, "acme", "env", LogFilter(order="asc", first=10))
    assert [reading.lines[0].failed for reading in readings] == [True, False]


async def test_start_end_and_search_choose_lines() -> None:
    cluster = Cluster({"pod": [(_stamp(second), f"Line {second}") for second in range(10)]})
    wanted = LogFilter(order="asc", first=10, start=_stamp(2), end=_stamp(5))
    assert await _pages(cluster, wanted) == [["Line 2", "Line 3", "Line 4"]]
    assert await _pages(cluster, LogFilter(order="desc", first=10, search="LINE 7")) == [["Line 7"]]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_severity_chooses_lines_however_few_of_them_there_are(order: Any) -> None:
    words = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    rows = [
        (_stamp(second), f'{{"severity": "{word}", "message": "{word}"}}')
        for second, word in enumerate(words)
    ]
    rows += [(_stamp(5 + index // 20, index), "a plain line") for index in range(900)]
    cluster = Cluster({"pod": rows})
    for number, word in enumerate(words[2:], 2):
        pages = await _pages(cluster, LogFilter(order=order, first=2, severity=word))
        found = [message for page in pages for message in page]
        assert found == (words[number:] if order == "asc" else words[: number - 1 : -1])


async def test_of_the_latest_version_are_its_own_pods_lines_only() -> None:
    cluster = Cluster({"old": [(_stamp(1), "before")], "new": [(_stamp(2), "after")]})
    wanted = LogFilter(order="asc", first=10)
    readings, _ = await pods.read(cluster, "acme", "env", wanted, version="of-new")
    assert [one.message for one in paging.page(readings, wanted).entries] == ["after"]


async def test_one_node_that_is_away_is_a_warning_and_all_are_an_error() -> None:
    cluster = Cluster({"a": [(_stamp(1), "here")], "b": [(_stamp(1), "there")]})
    cluster.away = {"b"}
    wanted = LogFilter(order="desc", first=5)
    readings, warnings = await pods.read(cluster, "acme", "env", wanted)
    assert [one.message for one in paging.page(readings, wanted).entries] == ["here"]
    assert warnings == ["the log of pod b cannot be read right now"]
    cluster.away = {"a", "b"}
    with pytest.raises(Unavailable):
        await pods.read(cluster, "acme", "env", wanted)


async def test_a_container_that_has_not_started_has_no_lines() -> None:
    cluster = Cluster({"a": [(_stamp(1), "here")]})
    cluster.away = {"a-gone"}
    assert await _pages(cluster, LogFilter(order="asc", first=5)) == [[]]


@pytest.mark.parametrize("token", ["x", "é", "A" * 2000, "W10", "WzEsImxvZ3MiXQ"])
def test_a_token_that_is_none_of_ours_is_400(token: str) -> None:
    with pytest.raises(ApiError) as refused:
        paging.decode("env", "asc", token)
    assert refused.value.status == 400


def test_a_token_of_another_environment_or_order_is_400() -> None:
    token = paging.encode("env", "asc", (_stamp(1), "pod/000000", 0))
    assert paging.decode("env", "asc", token) == (_stamp(1), "pod/000000", 0)
    for scope, order in (("other", "asc"), ("env", "desc")):
        with pytest.raises(ApiError):
            paging.decode(scope, order, token)  # type: ignore[arg-type]


@pytest.mark.parametrize("levels", [48, 49, 400, 1020])
def test_a_record_of_any_depth_can_be_searched_and_answered(levels: int) -> None:
    text = f'{{"message": "deep", "fields": {{"x": {"[" * levels}{"]" * levels}}}}}'
    (line,) = split(f"2026-11-21T10:00:00.000000000Z {text}", source="one")
    found = entry(line)
    assert found.has("deep")
    assert found.message == ("deep" if levels < 49 else text)
    assert orjson.loads(orjson.dumps(found.fields or {})) == (found.fields or {})
