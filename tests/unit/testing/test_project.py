"""A project in a test: real requests, real credentials, and a clear word on what was not expected."""

import base64
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.testing.written_projects import folder
from tieline.errors import CodeError
from tieline.testing import Answer, Project, RunFailedError, SeenRequest, UnexpectedRequestError

ORDERS = """
@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> dict:
    response = await ctx.fetch("shop", "/orders", method="POST", json=await request.json())
    ctx.log.info("Sent", status=response.status)
    return {"status": response.status, "text": await response.text()}
"""


def test_templates_that_the_code_names_are_there_without_any_file(tmp_path: Path) -> None:
    with Project(folder(tmp_path, ORDERS)) as project:
        project.connection("shop").on("POST", "/orders").answer(201, text="stored")
        assert project.post("/orders", json={"n": 1}).json() == {"status": 201, "text": "stored"}


def test_an_unexpected_request_fails_the_test_with_what_to_write(tmp_path: Path) -> None:
    with Project(folder(tmp_path, ORDERS)) as project:
        shop = project.connection("shop")
        shop.on("GET", "/orders", query={"page": "2"}).answer()
        with pytest.raises(UnexpectedRequestError) as error:
            project.post("/orders", json={"n": 1})
        told = str(error.value)
        assert "The code sent POST /orders through the template 'shop'" in told
        assert "There are answers for:\n  GET /orders?page=2" in told
        assert 'Its body: {"n": 1}' in told
        assert 'connection.on("POST", "/orders").answer(…)' in told
        shop.on("POST", "/orders")
        assert project.post("/orders", json={"n": 1}).json()["status"] == 200


def test_answers_come_in_order_and_the_last_one_stays(tmp_path: Path) -> None:
    with Project(folder(tmp_path, ORDERS)) as project:
        shop = project.connection("shop")
        shop.on("POST", "/{what}").answer(200, text="first").answer(409, json={"no": 1})
        texts = [project.post("/orders", json={}).json()["text"] for _ in range(3)]
        assert texts == ["first", '{"no": 1}', '{"no": 1}']

        def by_body(request: SeenRequest) -> Answer:
            return Answer.of(200, text=f"{request.json()['n']} of {request.headers['Content-Type']}")

        shop.on("POST", "/orders").answer(by_body)
        assert project.post("/orders", json={"n": 7}).json()["text"] == "7 of application/json"


def test_an_answer_that_cannot_be_made_fails_the_test(tmp_path: Path) -> None:
    with Project(folder(tmp_path, ORDERS)) as project:
        project.connection("shop").on("POST", "/orders").answer(lambda request: request.json()["missing"])
        with pytest.raises(UnexpectedRequestError, match="KeyError"):
            project.post("/orders", json={})


def test_repeated_requests_do_not_wait_and_lost_connections_can_be_played(tmp_path: Path) -> None:
    code = """
    @integration.webhook("sync", methods=["GET"])
    async def sync(ctx: Context) -> int:
        return (await ctx.fetch("shop", "/orders")).status
    """
    with Project(folder(tmp_path, code)) as project:
        shop = project.connection("shop")
        shop.on("GET", "/orders").lose_connection().answer(503, headers={"Retry-After": "9"}).answer(200)
        assert project.get("/sync").json() == 200
        assert len(shop.requests) == 3
        assert project.waits[-1] == 9


CONNECTIONS = """
variables: {region: eu}
connections:
  shop:
    baseUrl: https://shop.example/v2
    credentials:
      - authScheme: {type: basic-auth, basicAuth: {}}
        type: basic-auth
        data: {username: ann, password: "${SHOP_PASSWORD_THAT_IS_NOT_SET}"}
users:
  ben:
    variables: {region: us}
    connections:
      crm: {baseUrl: https://crm.example}
"""


def test_connections_come_from_the_projects_file_with_stand_ins_for_secrets(tmp_path: Path) -> None:
    code = """
    @integration.webhook("both", methods=["GET"])
    async def both(ctx: Context) -> list:
        ctx.log.info("Asking", password="test-SHOP_PASSWORD_THAT_IS_NOT_SET")
        await ctx.fetch("shop", "/orders", params={"region": ctx.variables.region})
        await ctx.fetch("crm", "/people")
        return [ctx.variables.region]
    """
    with Project(folder(tmp_path, code, connections__yaml=CONNECTIONS)) as project:
        shop, crm = project.connection("shop"), project.connection("crm", user="ben")
        shop.on("GET", "/orders")
        crm.on("GET", "/people")
        assert project.get("/both", user="ben").json() == ["us"]
        (request,) = shop.requests
        login = base64.b64encode(b"ann:test-SHOP_PASSWORD_THAT_IS_NOT_SET").decode()
        assert request.headers["Authorization"] == f"Basic {login}"
        assert (request.url.path, request.path, str(request)) == (
            "/v2/orders",
            "/orders",
            "GET /orders?region=us",
        )
        assert project.logs[0].fields == {"password": "***"}


def test_variables_and_users_can_be_set(tmp_path: Path) -> None:
    code = """
    @integration.webhook("where", methods=["GET"])
    def where(ctx: SyncContext) -> dict:
        return dict(ctx.variables)
    """
    schema = '{"type": "object", "properties": {"limit": {"default": 5}}}'
    with Project(folder(tmp_path, code, variables__schema__json=schema)) as project:
        project.variables = {"region": "eu"}
        project.user("ann", variables={"region": "us", "limit": 1})
        assert project.get("/where").json() == {"region": "eu", "limit": 5}
        assert project.get("/where", user="ann").json() == {"region": "us", "limit": 1}
        assert project.get("/where", user="ben").status == 404


@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}},
        {
            "type": "hmac",
            "hmac": {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body", "url"]},
        },
    ],
)
def test_callers_show_the_credential_that_the_webhook_asks_for(
    tmp_path: Path, scheme: dict[str, object]
) -> None:
    code = """
    @integration.webhook("paid", connection="storefront")
    async def paid(ctx: Context, request: Request) -> str:
        return await request.text()
    """
    with Project(folder(tmp_path, code)) as project:
        project.connection(
            "storefront", credentials=[{"type": "string", "authScheme": scheme, "data": {"value": "key-1"}}]
        )
        assert project.post("/paid", data=b"1").status == 401
        assert project.post("/paid", data=b"1", caller="storefront").text == "1"


def test_logs_and_spans_of_a_run_are_there(tmp_path: Path) -> None:
    code = """
    @integration.webhook("parse", methods=["GET"])
    async def parse(ctx: Context) -> None:
        with ctx.trace("read", rows=3):
            ctx.log.warning("Half", rows=3)
        raise ValueError("no")
    """
    with Project(folder(tmp_path, code)) as project:
        answer = project.get("/parse")
        assert answer.status == 500
        half, failed = project.logs
        assert (half.severity, half.message, half.fields) == ("WARNING", "Half", {"rows": 3})
        assert half.execution_id == answer.execution_id
        assert "ValueError: no" in failed.error
        assert [span.name for span in project.spans] == ["read", "parse"]
        assert project.spans[0].attributes["rows"] == 3


def test_each_test_has_the_code_for_itself(tmp_path: Path) -> None:
    code = """
    import counting

    @integration.webhook("count", methods=["GET"])
    def count() -> int:
        counting.COUNT += 1
        return counting.COUNT
    """
    path, modules = list(sys.path), set(sys.modules)
    for _ in range(2):
        with Project(folder(tmp_path, code, counting__py="COUNT = 0\n")) as project:
            assert [project.get("/count").json() for _ in range(2)] == [1, 2]
            assert project.module.counting.COUNT == 2
    assert sys.path == path
    assert not {"main", "counting"} & (set(sys.modules) - modules)


def test_code_that_does_not_load_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = list(sys.path)
    with (
        pytest.raises(CodeError, match=r"main\.py:5: ZeroDivisionError"),
        Project(folder(tmp_path, "\n1 / 0\n")),
    ):
        pass
    assert sys.path == path


SCHEDULES = """
from tieline import ScheduledRun

@integration.schedule("sync", "0 3 * * *", timezone="Europe/Berlin")
async def sync(ctx: Context, run: ScheduledRun) -> None:
    since = await ctx.state.get("since", "")
    response = await ctx.fetch("shop", "/orders", params={"since": since})
    await ctx.state.set("since", run.due.isoformat())
    ctx.background(notify, ctx, response.status)

async def notify(ctx: Context, status: int) -> None:
    ctx.log.info("Synced", status=status)

@integration.schedule("remind", "0 9 * * *", activations="users", parallel=2)
def remind(ctx: SyncContext) -> None:
    if ctx.variables.get("broken"):
        raise ValueError("broken")
    ctx.log.info("Reminding", user=ctx.activation.user.external_id)
"""


def test_a_schedule_is_run_at_a_time_with_the_state_that_the_test_sets(tmp_path: Path) -> None:
    with Project(folder(tmp_path, SCHEDULES)) as project:
        shop = project.connection("shop")
        shop.on("GET", "/orders")
        project.state.set("since", "2026-01-01")
        project.run_schedule("sync", at=datetime(2026, 1, 2, 3, tzinfo=UTC))
        assert str(shop.requests[0]) == "GET /orders?since=2026-01-01"
        assert project.state.get("since") == "2026-01-02T03:00:00+00:00"
        assert {"status": 200} in [entry.fields for entry in project.logs]
        assert {span.name for span in project.spans} >= {"sync", "GET", "background notify"}


def test_a_users_schedule_is_run_for_all_of_them(tmp_path: Path) -> None:
    with Project(folder(tmp_path, SCHEDULES)) as project:
        for name in ("ann", "ben", "cleo"):
            project.user(name)
        project.run_schedule("remind")
        reminded = sorted(entry.fields["user"] for entry in project.logs if entry.message == "Reminding")
        assert reminded == ["ann", "ben", "cleo"]
        project.user("ben", variables={"broken": True})
        with pytest.raises(RunFailedError, match=r"failed for ben \(1 of 3 runs\):(.|\n)*ValueError: broken"):
            project.run_schedule("remind")
        project.run_schedule("remind", user="ann")


def test_what_a_schedule_asks_unexpectedly_fails_the_test(tmp_path: Path) -> None:
    with (
        Project(folder(tmp_path, SCHEDULES)) as project,
        pytest.raises(UnexpectedRequestError, match="GET /orders"),
    ):
        project.run_schedule("sync")


def test_background_work_is_over_when_the_answer_is_there(tmp_path: Path) -> None:
    code = """
    import asyncio

    async def later(ctx: Context) -> None:
        await asyncio.sleep(0.05)
        ctx.log.info("Later")

    @integration.webhook("now", methods=["GET"])
    async def now(ctx: Context) -> None:
        ctx.background(later, ctx)
    """
    with Project(folder(tmp_path, code)) as project:
        assert project.get("/now").status == 204
        assert [entry.message for entry in project.logs] == ["Later"]
