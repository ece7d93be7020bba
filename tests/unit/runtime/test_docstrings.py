"""The examples in the docstrings of everything that `import tieline` gives: they run on the real runtime."""

import doctest
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tieline
from tieline.testing import Answer, Project

MAIN = """\
from tieline import Integration

integration = Integration()
function = None
arguments = 1


@integration.event("order.created")
async def order_created(ctx, event):
    pass


@integration.webhook("asynchronous")
async def asynchronous(ctx, request):
    return await function(*(ctx, request)[:arguments])


@integration.webhook("plain")
def plain(ctx, request):
    return function(*(ctx, request)[:arguments])
"""
CONNECTIONS = """\
variables: {region: eu}
templates: {unlinked: {dynamic: false, linked: false}}
connections:
  shop: {baseUrl: https://shop.example}
  mail:
    baseUrl: https://mail.example
    exposeToCode: true
    credentials:
      - name: login
        type: basic-auth
        authScheme: {type: basic-auth}
        data: {username: orders, password: p4ssw0rd}
        fields: {host: smtp.mail.example}
      - {type: oauth2-token, authScheme: {type: oauth2}}
      - {type: certificate, authScheme: {type: certificate}, data: {certificate: PEM, key: PRIVATE}}
      - {type: jwt-bearer, authScheme: {type: jwt-bearer}, data: {key: PRIVATE, keyId: k1}}
      - type: oauth1
        authScheme: {type: oauth1}
        data: {consumerKey: tieline, consumerSecret: cs, oauthToken: t, oauthTokenSecret: ts}
users:
  ann:
    user: {externalId: ann, displayName: Ann}
    variables: {region: us}
    connections:
      crm: {baseUrl: https://crm.example}
  ben: {}
"""
SHOP = {
    "format": 1,
    "connector": {"id": "", "name": "Shop", "version": "1"},
    "operations": {
        "createOrder": {
            "method": "POST",
            "path": "/orders",
            "body": {"required": True, "mediaType": "application/json", "schema": {"$ref": "#/$defs/Order"}},
            "answers": {"200": {"mediaType": "application/json", "schema": {"$ref": "#/$defs/Order"}}},
        },
        "getOrder": {
            "method": "GET",
            "path": "/orders/{id}",
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "answers": {"200": {"mediaType": "application/json", "schema": {"$ref": "#/$defs/Order"}}},
        },
        "listOrders": {
            "method": "GET",
            "path": "/orders",
            "answers": {"200": {"mediaType": "application/json", "schema": {"type": "object"}}},
            "pages": {"kind": "cursor", "parameter": "after", "next": "next", "items": "orders"},
        },
    },
    "schemas": {
        "Order": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "reference": {"type": "string"}},
        }
    },
}
# What comes from aiohttp has its own documentation.
OWN = [
    name
    for name in tieline.__all__
    if inspect.getmodule(getattr(tieline, name)).__name__.startswith("tieline")
]  # type: ignore[union-attr]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "Orders"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN)
    (folder / "connections.yaml").write_text(CONNECTIONS)
    (folder / "connectors").mkdir()
    (folder / "connectors/shop.json").write_text(json.dumps(SHOP))
    with Project(folder) as made:
        shop = made.connection("shop")
        for method in ("GET", "POST"):
            shop.on(method, "*").answer(json={"id": "7", "orders": [{"id": "A-1"}, {"id": "A-2"}]})
        shop.on("GET", "/orders/broken").answer(json={"id": 7})
        refused = {"error": "an order needs lines"}
        shop.on("POST", "/refused").answer(422, json=refused)
        made.connection("crm", user="ann").on("GET", "/people")
        yield made


def running(project: Project) -> Callable[..., Any]:
    def run(function: Callable[..., Any], **options: Any) -> Any:
        project.module.function = function
        project.module.arguments = len(inspect.signature(function).parameters)
        webhook = "asynchronous" if inspect.iscoroutinefunction(function) else "plain"
        answer = project.post(f"/{webhook}", **options)
        assert answer.status < 500, [entry.error for entry in project.logs]
        return said(answer)

    return run


def said(answer: Answer) -> Any:
    kind = answer.headers.get("Content-Type", "")
    if kind.startswith("application/json"):
        return answer.json()
    return answer.text if kind.startswith("text/plain") else answer


def examples(name: str) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [found for found in finder.find(getattr(tieline, name), name) if found.examples]


@pytest.mark.parametrize("name", OWN)
def test_examples_do_what_they_say(
    name: str, project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctest, "ELLIPSIS_MARKER", "\\u2026")  # "…": doctest compares in ASCII
    for found in examples(name):
        found.globs = {
            **found.globs,
            **{public: getattr(tieline, public) for public in tieline.__all__},
            "run": running(project),
            "fetch_order": lambda _: {},
            "refuses": lambda _: False,
            "sent": lambda: str(project.connection("shop").requests[-1]),
        }
        with capsys.disabled():
            told: list[str] = []
            result = doctest.DocTestRunner(optionflags=FLAGS).run(found, out=told.append)
        assert not result.failed, "".join(told)


@pytest.mark.parametrize("name", OWN)
def test_everything_public_has_an_example(name: str) -> None:
    assert examples(name), f"tieline.{name} has no example in its docstring"


@pytest.mark.parametrize("kind", ["Context", "Integration"])
def test_every_method_that_authors_call_has_one(kind: str) -> None:
    members = vars(getattr(tieline, kind))
    methods = {name for name, member in members.items() if inspect.isfunction(member) and name[0] != "_"}
    with_example = {found.name.rpartition(".")[2] for found in examples(kind)}
    assert methods <= with_example


@pytest.mark.parametrize("name", OWN)
def test_every_public_member_says_what_it_is(name: str) -> None:
    kind = getattr(tieline, name)
    for member, value in vars(kind).items():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{member} has no docstring"
