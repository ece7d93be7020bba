"""What a project offers is read from its files, and nothing of it runs."""

import json
from typing import Any

import orjson
import pytest

from tests.unit.connectors.project_interface import interface_of
from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.connectors.packing import all_lines, head_of, pack
from tieline_core.connectors.project_connector import webhooks_alone, with_webhooks
from tieline_core.connectors.webhooks import MAX_WEBHOOKS

MAIN = b'''
from tieline import Integration
integration = Integration()

@integration.webhook("orders")
async def orders(ctx, request):
    """Takes an order.

    Answers with its number.
    """

@integration.webhook(name="report", methods=("GET", "POST"))
def report(ctx): ...

integration.webhook("plain", methods="PUT")(report)
'''
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/a": {"get": {"operationId": "a"}}},
    "webhooks": {"orders": {"post": {"operationId": "orders"}}},
}


def names(maps: list[dict[str, bytes]]) -> list[str]:
    return [orjson.loads(line)["name"] for line in all_lines(maps, "triggers")]


def test_webhooks_are_found_with_their_methods_and_docstrings() -> None:
    found = {webhook.name: webhook for webhook in interface_of({"main.py": MAIN}).webhooks}
    assert {name: webhook.methods for name, webhook in found.items()} == {
        "orders": ("POST",),
        "report": ("GET", "POST"),
        "plain": ("PUT",),
    }
    assert found["orders"].description == "Takes an order.\n\nAnswers with its number."


def test_path_parameters_are_those_of_the_trigger() -> None:
    code = b'@i.webhook("orders/{orderId}/lines/{line}")\ndef a(): ...\n@i.webhook("users/{x}/users")\ndef b(): ...\n'
    found = interface_of({"main.py": code})
    assert [webhook.name for webhook in found.webhooks] == ["orders/{orderId}/lines/{line}"]
    (line,) = all_lines(webhooks_alone(found, title="Orders"), "triggers")
    assert orjson.loads(line)["parameters"] == [
        {"name": name, "in": "path", "required": True, "type": "string"} for name in ("orderId", "line")
    ]


def test_nothing_of_the_code_is_run() -> None:
    code = b'raise SystemExit("never")\n@i.webhook("a")\ndef a(): ...\n'
    assert [webhook.name for webhook in interface_of({"main.py": code}).webhooks] == ["a"]


def test_names_and_methods_that_are_computed_are_told() -> None:
    code = b'@i.webhook(NAME)\ndef a(): ...\n@i.webhook("b", methods=[M])\ndef b(): ...\n'
    found = interface_of({"shop/more.py": code})
    assert [(webhook.name, webhook.methods) for webhook in found.webhooks] == [("b", ("POST",))]
    assert [finding.location for finding in found.findings] == ["shop/more.py line 1", "shop/more.py line 3"]


def test_a_webhook_is_a_tool_where_its_author_says_what_it_does() -> None:
    code = b"""
@i.webhook("refund", tool=" Refunds an order. ")
def a(): ...
@i.webhook("plain", tool=None)
def b(): ...
@i.webhook("computed", tool=TEXT)
def c(): ...
@i.webhook("formatted", tool=f"{TEXT}")
def d(): ...
"""
    found = interface_of({"main.py": code})
    assert {one.name: one.tool for one in found.webhooks if one.tool} == {"refund": "Refunds an order."}
    assert [finding.location for finding in found.findings] == ["main.py line 6", "main.py line 8"]
    without = interface_of({"main.py": b'@i.webhook("refund")\ndef a(): ...\n'})
    marked = interface_of({"main.py": b'@i.webhook("refund", tool="Refunds.")\ndef a(): ...\n'})
    assert without.digest != marked.digest


@pytest.mark.parametrize(
    ("written", "seen", "told"),
    [
        ("{'type': 'object', 'required': ['id']}", {"type": "object", "required": ["id"]}, ""),
        ("None", None, ""),
        ("SCHEMA", None, "is computed"),
        ("{'a': f(1)}", None, "is computed"),
        ("[1]", None, "must be a dictionary"),
        ("{'a': {1}}", None, "must be plain JSON"),
        ("{1: 'a'}", None, "must be plain JSON"),
        ("{'a': 1e999}", None, "must be plain JSON"),
        ("{'a': b'x'}", None, "must be plain JSON"),
        ("{'a': '" + "x" * 4096 + "'}", None, "at most 4,096 characters"),
        ("{'a': " + "[" * 90 + "]" * 90 + "}", {"a": json.loads("[" * 90 + "]" * 90)}, ""),
    ],
)
def test_what_a_tool_takes_is_seen_where_it_stands_in_the_code(written: str, seen: Any, told: str) -> None:
    code = f'@i.webhook("refund", tool="Refunds.", input_schema={written})\ndef a(): ...\n'
    found = interface_of({"main.py": code.encode()})
    assert found.webhooks[0].input_schema == seen
    assert [told in finding.text for finding in found.findings] == ([True] if told else [])


def test_what_does_not_parse_or_is_no_webhook_offers_nothing() -> None:
    files = {
        "broken.py": b'@i.webhook("a"\n',
        "other.py": b'client.webhook("b")\nwebhook("c")\n',
        "bad_name.py": b'@i.webhook("-no name")\ndef d(): ...\n',
        "notes.txt": b'@i.webhook("e")\ndef e(): ...\n',
    }
    found = interface_of(files)
    assert not found.webhooks
    assert found.description_file is None


def test_the_digest_changes_with_what_others_see_and_with_nothing_else() -> None:
    first = interface_of({"main.py": MAIN})
    assert interface_of({"main.py": MAIN + b"\nprint(1)\n", "data.txt": b"x"}).digest == first.digest
    assert interface_of([("lib.py", MAIN)]).digest == first.digest
    assert interface_of({"main.py": MAIN.replace(b"plain", b"other")}).digest != first.digest
    assert interface_of({"main.py": MAIN, "openapi.json": b"{}"}).digest != first.digest


def test_of_several_descriptions_the_one_nearest_to_the_top_counts() -> None:
    files = {"docs/openapi.json": b"1", "openapi.yaml": b"2", "openapi.yml": b"3", "my-openapi.json": b"4"}
    found = interface_of(files)
    assert (found.description_file, found.description) == ("openapi.yaml", b"2")


def test_more_webhooks_than_a_connector_holds_are_told() -> None:
    code = "".join(f'@i.webhook("w{number}")\ndef w{number}(): ...\n' for number in range(MAX_WEBHOOKS + 1))
    found = interface_of({"main.py": code.encode()})
    assert len(found.webhooks) == MAX_WEBHOOKS
    assert found.findings


def test_webhooks_alone_become_triggers_one_a_method() -> None:
    interface = interface_of({"main.py": MAIN})
    maps = webhooks_alone(interface, title="Shop")
    head = head_of(maps[0])
    assert (head["title"], head["actions"], head["triggers"], head["digest"]) == (
        "Shop",
        0,
        4,
        interface.digest,
    )
    assert names(maps) == ["orders", "plain", "report_get", "report_post"]
    (orders, *_), ids = (
        [orjson.loads(line) for line in all_lines(maps, "triggers")],
        {orjson.loads(line)["id"] for line in all_lines(maps, "triggers")},
    )
    assert (orders["method"], orders["summary"], len(ids)) == ("POST", "Takes an order.", 4)
    assert webhooks_alone(interface, title="Shop") == maps


def test_a_description_gives_the_actions_and_says_more_of_webhooks_that_it_has() -> None:
    content = orjson.dumps(DESCRIPTION)
    interface = interface_of({"main.py": MAIN, "openapi.json": content})
    described = pack(import_description(content))
    maps = with_webhooks(interface, described)
    head = head_of(maps[0])
    assert (head["actions"], head["triggers"]) == (1, 4)
    assert names(maps) == ["orders", "plain", "report_get", "report_post"]
    assert [orjson.loads(line)["name"] for line in all_lines(maps, "actions")] == ["a"]
    assert names(described) == ["orders"]


def test_a_description_that_cannot_be_read_is_a_message_and_the_webhooks_stay() -> None:
    interface = interface_of({"main.py": MAIN, "openapi.json": b"no"})
    head = head_of(webhooks_alone(interface, title="Shop", refused="It is no description")[0])
    assert head["triggers"] == 4
    assert head["messages"] == [
        {"text": "It is no description", "severity": "error", "detail": ["at openapi.json"]}
    ]
