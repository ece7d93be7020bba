"""The examples of docs/webhooks.md do what the page says."""

import hmac
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from deploy.sender_table import with_table
from tests.unit.runtime.external_systems import scheme_credential
from tieline.testing import Project
from tieline_core.resources.auth_schemes import Challenge, Hmac
from tieline_core.resources.systems import System
from tieline_protocol.signatures import ALGORITHMS, InputKind, parse

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
OTHERS = ("async def refunds", "async def payments", "async def files", "async def order_of_shop")


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
    expected = 200 if preset in ("slack", "meta") else 202
    assert project.post(path, json=body, headers=headers, caller="signs").status == expected
    project.run_events()
    assert logged in [entry.fields for entry in project.logs]


def test_meta_gets_its_challenge(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_APP_SECRET", "s3cret")
    monkeypatch.setenv("META_VERIFY_TOKEN", "t0ken")
    project = serve(block(section("Meta"), "python"), block(section("Meta"), "yaml"))
    query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    assert project.get(f"/meta?{query}t0ken").text == "1158201444"
    assert project.get(f"/meta?{query}other").status == 401


def test_the_table_of_presets_is_current() -> None:
    assert with_table(PAGE) == PAGE, "run: make manifests"


def test_the_fields_of_another_sender_are_valid_and_named() -> None:
    text = section("Other senders")
    (credential,) = yaml.safe_load(block(text, "yaml"))["connections"]["billing"]["credentials"]
    assert parse(credential["authScheme"]["hmac"]).signs("timestamp")
    known = named(text.partition("| algorithm |")[0])
    (manifest, *_) = yaml.safe_load_all(block(section("How a request is verified"), "yaml"))
    (scheme,) = System.read(manifest).spec.auth_scheme_configs
    assert scheme.hmac is not None
    assert known == {info.alias for info in Hmac.model_fields.values()} - {"preset"}
    algorithms, _, inputs = text.partition("| algorithm |")[2].partition("| input |")
    assert named(algorithms) == set(ALGORITHMS)
    assert named(inputs.partition("\n\n")[0]) == set(get_args(InputKind))


def named(rows: str) -> set[str]:
    """The names in the first column of a table."""
    cells = re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w-]+)(?::[^`]*)?`", cell)}


def test_the_fields_of_a_challenge_are_named_and_it_is_answered(serve: Serve) -> None:
    text = section("Handshakes")
    options = yaml.safe_load(block(text, "yaml"))["hmac"]
    assert named(text.partition("| field of a challenge |")[2]) == {
        info.alias for info in Challenge.model_fields.values()
    }
    own = scheme_credential("hmac", options, value="k3y")
    project = serve(python("async def payments"))
    project.connection("stripe", credentials=[own])
    answer = project.post("/payments", json={"event": "url_check", "data": {"token": "t"}}, caller="stripe")
    assert answer.json() == {"token": "t", "signed": hmac.new(b"k3y", b"t", "sha256").hexdigest()}


def test_a_webhooks_own_answer_is_sent(serve: Serve) -> None:
    answers = block(section("What a queued webhook answers"), "yaml")
    own = scheme_credential("hmac", yaml.safe_load(answers)["hmac"], value="k3y")
    project = serve(python("async def payments"))
    project.connection("stripe", credentials=[own])
    assert project.post("/payments", json={"type": "paid"}, caller="stripe").status == 204
    project.run_events()
    assert {"type": "paid"} in [entry.fields for entry in project.logs]


def test_both_secrets_hold_while_one_is_rotated(serve: Serve) -> None:
    fields = yaml.safe_load(block(section("Rotate a secret"), "yaml"))["spec"]["credentials"]
    assert [set(one) - {"expiresAt"} for one in fields] == [
        {"id", "type", "authSchemeConfigId", "secretRef"}
    ] * 2

    def secret(value: str, ends: float | None = None) -> dict[str, Any]:
        given = scheme_credential("hmac", {"preset": "stripe"}, value=value)
        at = {"expiresAt": datetime.fromtimestamp(time.time() + ends, UTC).isoformat()} if ends else {}
        return {**given, "id": value, **at}

    project = serve(python("async def refunds"))
    project.connection("shop").on("POST", "/refunds").answer(201)
    for value in ("old", "new", "other"):
        project.connection(value, credentials=[secret(value)])
    for credentials, statuses in (
        ([secret("old"), secret("new")], (200, 200, 401)),
        ([secret("old", 60.0), secret("new")], (200, 200, 401)),
        ([secret("old", -60.0), secret("new")], (401, 200, 401)),
        ([secret("old", -60.0)], (401, 401, 401)),
    ):
        project.connection("stripe", credentials=credentials)
        found = tuple(
            project.post("/refunds", data=b"{}", caller=caller).status for caller in ("old", "new", "other")
        )
        assert found == statuses


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
    project.connection("acme", credentials=[scheme_credential("hmac", signer, value="s3cret")])
    assert project.get("/files?challenge=abc").text == "abc"
    body = {"list_folder": {"accounts": ["dbid:1"]}}
    assert project.post("/files", json=body).status == 401
    assert project.post("/files", json=body, caller="acme").status == 202
    project.run_events()
    assert [entry.fields for entry in project.logs if entry.message == "Changed"] == [
        {"accounts": ["dbid:1"]}
    ]


def test_path_parameters_reach_the_code(serve: Serve) -> None:
    project = serve(python("async def order_of_shop"))
    assert project.put("/shops/eu%2Fde/orders/7").json() == {"shop": "eu/de", "order": "7"}
    assert project.put("/shops/../orders/7").status in (400, 404)
