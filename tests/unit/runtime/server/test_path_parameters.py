"""Webhooks whose names have path parameters: what they match, and what reaches the code."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.testing.written_projects import folder
from tieline import Integration
from tieline.cli.check import check
from tieline.configuration.project_folder import find
from tieline.errors import CodeError
from tieline.testing import Project

CODE = """
from tieline import SyncRequest

@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context) -> str:
    return "all"


@integration.webhook("orders/{orderId}", methods=["GET", "POST"])
async def order(ctx: Context, request: Request) -> dict:
    user = ctx.activation.user
    return {"id": request.match_info["orderId"], "user": user.external_id if user else None}


@integration.webhook("orders/latest", methods=["GET"])
def latest(ctx: SyncContext, request: SyncRequest) -> dict:
    return {"latest": dict(request.match_info)}


@integration.webhook("shops/{shop}/orders/{orderId}", delivery="queued")
def later(ctx: SyncContext, request: SyncRequest) -> None:
    ctx.log.info("Ran", **request.match_info)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with ExitStack() as stack:
        yield stack.enter_context(Project(folder(tmp_path_factory.mktemp("project"), CODE)))


def test_parameters_reach_the_code(project: Project) -> None:
    assert project.get("/orders/17").json() == {"id": "17", "user": None}
    assert project.post("/orders").text == "all"
    assert project.get("/orders/latest").json() == {"latest": {}}
    assert project.post("/orders/latest").status == 405
    project.user("ann")
    assert project.get("/orders/17", user="ann").json() == {"id": "17", "user": "ann"}


def test_a_queued_run_has_them_too(project: Project) -> None:
    assert project.post("/shops/b%C3%A4r/orders/7%2F8").status == 202
    project.run_events()
    assert project.logs[-2].fields == {"shop": "bär", "orderId": "7/8"}


def test_metrics_and_traces_have_the_template(project: Project) -> None:
    for number in range(3):
        project.get(f"/orders/{number}")
    span = next(span for span in reversed(project.spans) if span.attributes.get("http.route"))
    assert (span.name, span.attributes["http.route"]) == ("orders/{orderId}", "/orders/{orderId}")
    text = project._runner.counts.text({})
    assert 'task="orders/{orderId}"' in text
    assert "orders/1" not in text


@pytest.mark.parametrize(
    ("sent", "status", "value"),
    [
        ("a%2Fb", 200, "a/b"),
        ("a%252Fb", 200, "a%2Fb"),
        ("%C3%A4%20%3F%23", 200, "ä ?#"),
        ("a+b;c=d", 200, "a+b;c=d"),
        ("'%22%3E%3Cscript%3E", 200, "'\"><script>"),
        ("%ZZ", 200, "%ZZ"),
        ("%2E%2E", 400, ""),
        ("..", 400, ""),
        (".", 400, ""),
        ("..%2F..%2Fetc", 400, ""),
        ("a%2F..%2Fb", 400, ""),
        ("%00", 400, ""),
        ("a%0D%0AX-A:%20b", 400, ""),
        ("%7F", 400, ""),
        ("%C2%85", 400, ""),
        ("%FF", 400, ""),
        ("%ED%A0%80", 400, ""),
        ("x" * 512, 200, "x" * 512),
        ("x" * 513, 400, ""),
        ("", 404, ""),
        ("a/b", 404, ""),
        ("%7Bid%7D", 200, "{id}"),
    ],
)
def test_hostile_values_are_decoded_once_or_refused(
    project: Project, sent: str, status: int, value: str
) -> None:
    head, body = asyncio.run(_raw(project, f"/orders/{sent}"))
    assert f" {status} " in head
    if status == 200:
        assert json.loads(body)["id"] == value
    elif status == 400:
        assert "The path parameter orderId must be" in body


async def _raw(project: Project, target: str) -> tuple[str, str]:
    """An answer to a target that no HTTP client changes."""
    host, _, port = project._url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return head.splitlines()[0], body


def test_conflicts_are_refused_by_check_with_their_line(tmp_path: Path) -> None:
    code = (
        "from tieline import Integration\nintegration = Integration()\n\n"
        '@integration.webhook("orders/{id}")\ndef one(): ...\n\n'
        '@integration.webhook("orders/{orderId}")\ndef two(): ...\n'
    )
    (tmp_path / "main.py").write_text(code)
    (finding,) = check(find(tmp_path)).findings
    assert "The webhooks 'orders/{orderId}' and 'orders/{id}' both match /orders/x" in finding.message
    assert finding.line == 7


def test_conflicts_of_two_integrations_are_refused(tmp_path: Path) -> None:
    code = (
        'other = Integration()\n\n@integration.webhook("a/{x}")\ndef one(): ...\n\n'
        '@other.webhook("a/{y}")\ndef two(): ...\n'
    )
    with pytest.raises(
        CodeError, match="both match /a/x, and none is more specific; give one another name, in two"
    ):
        Project(folder(tmp_path, code)).__enter__()


@pytest.mark.parametrize("name", ["orders/", "orders/users", "orders/{external_id}", "{id}"])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="The webhook name"):
        Integration().webhook(name)


def test_two_names_of_one_function_that_match_the_same_path_are_refused() -> None:
    integration = Integration()
    with pytest.raises(ValueError, match=r"'a/{x}' and 'a/{y}' both match /a/x"):

        @integration.webhook("a/{x}")
        @integration.webhook("a/{y}")
        def hook() -> None: ...
