"""The examples of docs/webhooks.md do what the page says."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.runtime.external_systems import scheme_credential
from tieline.testing import Project
from tieline_core.resources.systems import System
from tieline_protocol.signatures import PRESETS, parse

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text(encoding="utf-8")
Serve = Callable[..., Project]

# by the heading: the body that the sender sends, its headers, and what the code logs
SENDERS: dict[str, tuple[str, Any, dict[str, str], dict[str, Any]]] = {
    "Stripe": (
        "/stripe",
        {"type": "invoice.paid", "data": {"object": {"id": "in_1"}}},
        {},
        {"invoice": "in_1"},
    ),
    "Slack": ("/slack/events", {"type": "event_callback", "event": {"channel": "C1"}}, {}, {"channel": "C1"}),
    "GitHub": (
        "/github/tieline",
        {"after": "6dcb09b"},
        {"X-GitHub-Event": "push"},
        {"repository": "tieline", "commit": "6dcb09b"},
    ),
    "Shopify": (
        "/shopify/orders",
        {"id": 7},
        {"X-Shopify-Topic": "orders/create"},
        {"topic": "orders/create", "order": 7},
    ),
    "Standard Webhooks": (
        "/sender",
        {"type": "contact.created"},
        {"Webhook-Id": "msg_1"},
        {"id": "msg_1", "type": "contact.created"},
    ),
    "Meta": ("/meta", {"entry": [{"id": "1"}]}, {}, {"page": "1"}),
}
OTHERS = ("async def refunds", "async def files", "async def order_of_shop")


def section(heading: str) -> str:
    return re.split(r"\n#{2,3} ", PAGE.partition(f"## {heading}\n")[2])[0]


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(found)


def python(marker: str) -> str:
    (found,) = [one for one in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if marker in one]
    return str(found)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(code: str, connections: str = "") -> Project:
            (tmp_path / "main.py").write_text(code)
            if connections:
                (tmp_path / "connections.yaml").write_text(connections)
            return stack.enter_context(Project(tmp_path))

        yield start


def test_every_example_has_a_test() -> None:
    assert PAGE.count("```python") == len(SENDERS) + len(OTHERS)
    assert all(python(marker) for marker in OTHERS)


@pytest.mark.parametrize("sender", SENDERS)
def test_a_request_of_the_sender_runs_the_code(
    sender: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = block(section(sender), "yaml")
    for name in re.findall(r"\$\{(\w+)\}", connections):
        monkeypatch.setenv(name, "whsec_c2VjcmV0" if name != "META_VERIFY_TOKEN" else "token")
    project = serve(block(section(sender), "python"), connections)
    path, body, headers, logged = SENDERS[sender]
    # Meta's second credential is for GET alone, and would be sent along.
    (name,) = yaml.safe_load(connections)["connections"]
    preset = yaml.safe_load(connections)["connections"][name]["credentials"][0]["authScheme"]["hmac"][
        "preset"
    ]
    project.connection(
        "signs", credentials=[scheme_credential("hmac", {"preset": preset}, value="whsec_c2VjcmV0")]
    )
    assert project.post(path, json=body, headers=headers).status == 401
    assert project.post(path, json=body, headers=headers, caller="signs").status == 202
    project.run_events()
    assert logged in [entry.fields for entry in project.logs]


def test_meta_gets_its_challenge(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_APP_SECRET", "s3cret")
    monkeypatch.setenv("META_VERIFY_TOKEN", "t0ken")
    project = serve(block(section("Meta"), "python"), block(section("Meta"), "yaml"))
    query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    assert project.get(f"/meta?{query}t0ken").text == "1158201444"
    assert project.get(f"/meta?{query}other").status == 401


def test_presets_and_their_table_are_the_same() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| `([A-Za-z0-9-]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert {row[0] for row in rows} == set(PRESETS)
    for preset, header, covers, identifier in rows:
        scheme = parse({"preset": preset})
        assert header == scheme.name
        kinds = [one.kind for one in scheme.inputs if one.kind != "literal"]
        assert covers == ", ".join(kinds)
        without = "the signature" if scheme.signs("timestamp") else "none"
        assert identifier == (f"`{scheme.id_header}`" if scheme.id_header else without)


def test_the_fields_of_another_sender_are_valid_and_named() -> None:
    text = section("Other senders")
    (credential,) = yaml.safe_load(block(text, "yaml"))["connections"]["billing"]["credentials"]
    assert parse(credential["authScheme"]["hmac"]).signs("timestamp")
    known = {
        name
        for fields in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", fields)
    }
    (manifest, *_) = yaml.safe_load_all(block(section("How a request is verified"), "yaml"))
    (scheme,) = System.read(manifest).spec.auth_scheme_configs
    assert scheme.hmac is not None
    assert known == {info.alias for info in type(scheme.hmac).model_fields.values()} - {"preset"}


def test_a_repeated_refund_is_sent_once(serve: Serve) -> None:
    project = serve(python("async def refunds"))
    sender = scheme_credential("hmac", {"preset": "standard-webhooks"}, value="whsec_c2VjcmV0")
    project.connection("stripe", credentials=[sender])
    shop = project.connection("shop")
    shop.on("POST", "/refunds").answer(201)
    for _ in range(2):
        answer = project.post("/refunds", data=b"{}", headers={"Webhook-Id": "msg_1"}, caller="stripe")
        assert answer.status == 200
    assert len(shop.requests) == 1


def test_an_unsigned_challenge_is_answered_and_nothing_else(serve: Serve) -> None:
    project = serve(python("async def files"))
    signer = {"name": "X-Dropbox-Signature", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}
    project.connection("dropbox", credentials=[scheme_credential("hmac", signer, value="s3cret")])
    assert project.get("/files?challenge=abc").text == "abc"
    body = {"list_folder": {"accounts": ["dbid:1"]}}
    assert project.post("/files", json=body).status == 401
    assert project.post("/files", json=body, caller="dropbox").status == 202
    project.run_events()
    assert [entry.fields for entry in project.logs if entry.message == "Changed"] == [
        {"accounts": ["dbid:1"]}
    ]


def test_path_parameters_reach_the_code(serve: Serve) -> None:
    project = serve(python("async def order_of_shop"))
    assert project.put("/shops/eu%2Fde/orders/7").json() == {"shop": "eu/de", "order": "7"}
    assert project.put("/shops/../orders/7").status in (400, 404)
