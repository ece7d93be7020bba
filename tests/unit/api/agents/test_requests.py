"""Requests from what agents give: what is sent is the operation that they named, and no other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.agents.requests import MAX_REQUEST, request_of
from tieline_api.connection_requests.client import SystemRequest
from tieline_api.errors import ApiError

REFERENCE = "#/components/schemas/Page"
PAGE = {"type": "object", "properties": {"state": {"type": "string"}}}


def parameter(name: str, place: str, *, required: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, **more}


def action(
    *parameters: Any, method: str = "GET", path: str = "/orders/{id}/lines", **more: Any
) -> dict[str, Any]:
    return {"method": method, "path": path, "parameters": [parameter("id", "path"), *parameters], **more}


def json_body(*kinds: str, required: bool = False) -> dict[str, Any]:
    return {"requestBody": {"required": required, "definitions": [{"mediaTypes": list(kinds)}]}}


def refused(found: dict[str, Any], given: dict[str, Any], body: Any = None) -> str:
    with pytest.raises(ApiError) as caught:
        request_of(found, given, body)
    assert caught.value.status == 422
    return " ".join((caught.value.message, *(f"{one.field} {one.message}" for one in caught.value.fields)))


@given(st.text(max_size=20), st.text(max_size=20))
def test_values_never_lead_to_another_path(identifier: str, word: str) -> None:
    sent: SystemRequest | None = None
    with suppress(ApiError):
        sent = request_of(action(parameter("q", "query")), {"id": identifier, "q": word}, None)
    if sent is None:
        assert set(identifier) & set("/\\") or identifier in ("", ".", "..") or not identifier.isprintable()
        return
    parts = urlsplit(sent.path)
    assert unquote(parts.path) == f"/orders/{identifier}/lines"
    assert parts.path.count("/") == unquote(parts.path).count("/") == 3
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", word)]


@pytest.mark.parametrize(
    "identifier", ["", ".", "..", "1/refund", "..\\..", "../../admin", [], ["..", "/.."], {"a": "/"}, None]
)
def test_a_value_that_is_no_part_of_a_path_is_refused(identifier: Any) -> None:
    assert "parameters.id" in refused(action(), {"id": identifier})


@pytest.mark.parametrize(
    ("found", "value", "query"),
    [
        (parameter("q", "query"), ["a", "b c"], "q=a&q=b+c"),
        (parameter("q", "query", explode=False), ["a", "b"], "q=a%2Cb"),
        (parameter("q", "query", style="pipeDelimited", explode=False), ["a", "b"], "q=a%7Cb"),
        (parameter("q", "query", type="object", style="deepObject"), {"a": 1}, "q%5Ba%5D=1"),
        (parameter("q", "query", schema=PAGE, style="deepObject"), {"state": 1}, "q%5Bstate%5D=1"),
        (parameter("q", "query", schema=PAGE), {"state": "open"}, "state=open"),
        (parameter("q", "query", schema={"$ref": REFERENCE}), {"state": "open"}, "state=open"),
        (parameter("q", "query", schema={"anyOf": [{"type": "string"}, PAGE]}), {"state": 1}, "state=1"),
        (parameter("q", "query", schema=PAGE, explode=False), {"state": "a&b=c"}, "q=state%2Ca%26b%3Dc"),
        (parameter("q", "query"), True, "q=true"),
        (parameter("q", "query"), 7, "q=7"),
    ],
)
def test_lists_and_objects_are_written_as_the_description_says(found: Any, value: Any, query: str) -> None:
    sent = request_of(action(found), {"id": "1", "q": value}, None, {REFERENCE: PAGE})
    assert sent.path == f"/orders/1/lines?{query}"


@pytest.mark.parametrize("style", ["form", "deepObject", "spaceDelimited", "pipeDelimited"])
@pytest.mark.parametrize(
    "said",
    [
        {"type": "string"},
        {
            "type": "array",
            "schema": {"type": "array", "items": {"type": "object", "properties": {"admin": {}}}},
        },
        {"type": "string", "schema": {"$ref": "#/components/schemas/Missing"}},
        {"type": "object", "schema": PAGE},
        {"type": "string", "schema": {"anyOf": [{"type": "string"}, PAGE]}},
    ],
)
def test_an_object_adds_no_parameters_to_the_query(said: dict[str, Any], style: str) -> None:
    found = action(parameter("q", "query", style=style, explode=True, **said))
    assert "parameters.q " in refused(found, {"id": "1", "q": {"admin": True, "_method": "DELETE"}})


@pytest.mark.parametrize("schema", [None, {"type": "object", "additionalProperties": True}])
def test_a_free_form_object_adds_no_parameters_to_the_query(schema: Any) -> None:
    found = action(parameter("q", "query", type="object", **({"schema": schema} if schema else {})))
    assert "'_method'" in refused(found, {"id": "1", "q": {"_method": "DELETE"}})


def test_what_the_description_does_not_have_is_not_sent() -> None:
    found = action(parameter("X-Trace", "header"), parameter("Authorization", "header"))
    assert request_of(found, {"id": "1", "X-Trace": "t"}, None).headers["X-Trace"] == "t"
    for name in ("Authorization", "Cookie", "X-HTTP-Method-Override", "other"):
        assert f"parameters.{name} is no parameter" in refused(found, {"id": "1", name: "x"})
    assert "printable" in refused(found, {"id": "1", "X-Trace": "a\r\nHost: elsewhere"})


def test_headers_of_the_api_are_not_sent_even_where_a_description_has_them() -> None:
    found = action(parameter("X-Tieline-Revision", "header"), parameter("Host", "header"))
    sent = request_of(found, {"id": "1", "X-Tieline-Revision": "1", "Host": "elsewhere"}, None)
    assert set(sent.headers) == {"Accept-Encoding"}


def test_what_is_needed_is_named() -> None:
    found = action(
        parameter("page", "query", required=True),
        method="POST",
        **json_body("application/json", required=True),
    )
    told = refused(found, {})
    assert "parameters.id is needed" in told
    assert "parameters.page is needed" in told
    assert "body is needed" in refused(found, {"id": "1", "page": 1})


def test_a_body_is_sent_in_the_form_that_the_operation_takes() -> None:
    def sent(body: Any, *kinds: str) -> tuple[bytes, str]:
        request = request_of(action(method="POST", **json_body(*kinds)), {"id": "1"}, body)
        return request.body, request.headers["Content-Type"]

    assert sent({"a": 1}, "application/json") == (b'{"a":1}', "application/json")
    assert sent([1], "text/plain", "application/merge-patch+json") == (b"[1]", "application/merge-patch+json")
    assert sent({"a": "x y"}, "application/x-www-form-urlencoded")[0] == b"a=x+y"
    assert sent("hello", "text/plain") == (b"hello", "text/plain")
    assert sent({"a": 1}) == (b'{"a":1}', "application/json")


def test_a_body_that_cannot_be_sent_is_refused() -> None:
    assert "the operation has none" in refused(action(), {"id": "1"}, {"a": 1})
    assert "cannot be sent as image/png" in refused(action(**json_body("image/png")), {"id": "1"}, {"a": 1})
    assert "at most 256 KiB" in refused(
        action(**json_body("application/json")), {"id": "1"}, "x" * MAX_REQUEST
    )


@pytest.mark.parametrize("value", ["\ud800", float("nan"), ["\udfff"], {"a": float("inf")}])
def test_what_has_no_form_as_json_is_refused(value: Any) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    found = action(parameter("q", "query", schema=schema), **json_body("application/json"))
    assert "plain JSON" in refused(found, {"id": "1", "q": value})
    assert "plain JSON" in refused(found, {"id": "1"}, value)


def test_large_numbers_are_sent_as_they_are() -> None:
    found = action(method="POST", **json_body("application/json"))
    assert request_of(found, {"id": 2**70}, {"a": 2**70}).body == b'{"a":1180591620717411303424}'
