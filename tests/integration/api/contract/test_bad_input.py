"""Whatever is sent, the answer is an error in the contract's form and never a 500."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import RootModel

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client
from tests.integration.api.contract.all_resources import Everything, make_everything
from tests.integration.api.objects import make_project
from tieline_api.handlers import OPERATIONS as ALL
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

# What is passed on to another system is not read: tests/integration/api/resources/test_connection_requests.py. A stream
# does not end: tests/unit/api/watching.
OPERATIONS = tuple(one for one in ALL if not one.proxies and not one.streams)

WITH_BODY = [operation for operation in OPERATIONS if operation.body is not None and not operation.upload]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["\x00", "../..", "{}", "' OR 1=1", "https://x", "api-key", "main.py", "é" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def known(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> Everything:
    """Ids of things that are there, so that bodies get as far as possible."""
    return make_everything(client, engine, kubectl, org)


def _check(answer: Any) -> None:
    assert answer.status < 500, answer.raw
    if answer.status >= 400:
        error = answer.json
        assert error.keys() <= {
            "code",
            "message",
            "fields",
            "details",
            "limit",
            "usedBy",
            "managers",
            "id",
            "errors",
        }
        assert error["code"]
        assert error["message"]
        assert answer.headers["Content-Type"].startswith("application/json")
        assert "Traceback" not in error["message"]
        assert "pydantic" not in error["message"].lower()


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff\xfe{\x00}\x00", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b'{"a": "\\ud800"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"{}", "application/json; charset=utf-16", 415),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b'"text"', "application/json", 422),
        (b'{"a":' * 60 + b"{}" + b"}" * 60, "application/json", None),
        (b'{"a":' * 500 + b"{}" + b"}" * 500, "application/json", 422),
    ],
    ids=[
        "cut",
        "empty",
        "utf-16",
        "nan",
        "surrogate",
        "deep",
        "form",
        "charset",
        "list",
        "null",
        "text",
        "60",
        "500",
    ],
)
def test_bodies_that_are_none(
    client: Client,
    known: Everything,
    operation: Operation,
    body: bytes,
    content_type: str,
    status: int | None,
) -> None:
    if body == b"" and operation.body_optional:
        pytest.skip("an absent body is an empty one here")
    answer = client.at(known.path(operation), method=operation.method, raw=body, Content_Type=content_type)
    _check(answer)
    if status is not None:
        assert answer.status == status, answer.raw


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_json_is_an_internal_error(
    client: Client, known: Everything, operation: Operation, data: st.DataObject
) -> None:
    fields = (
        ["a", "b"]
        if issubclass(operation.body, RootModel)
        else sorted(  # type: ignore[arg-type]
            info.alias or name
            for name, info in operation.body.model_fields.items()  # type: ignore[union-attr]
        )
    )
    body = data.draw(st.dictionaries(st.sampled_from(fields), JSON, max_size=len(fields)))
    _check(client.at(known.path(operation), method=operation.method, body=body))


def _mutated(value: Any, chance: random.Random) -> Any:
    """``value`` with one thing in it that should not be there."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        return {**value, key: _mutated(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], _mutated(value[index], chance), *value[index + 1 :]]
    return chance.choice(
        [None, "", "x" * 5000, -1, 10**30, 1.5, [], {}, [None], {"": ""}, True, "\x00", "../x"]
    )


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
def test_examples_with_one_thing_wrong_are_no_internal_error(
    client: Client, known: Everything, operation: Operation
) -> None:
    chance = random.Random(operation.id)
    for _ in range(12):
        body = _mutated(json.loads(json.dumps(dict(operation.example or {}))), chance)
        _check(client.at(known.path(operation), method=operation.method, body=body))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
@pytest.mark.parametrize(
    "identifier", ["q", "%00", "..%2f..", "%F0%9F%92%A9", "0" * 300, "ILOU" * 7, "a%20b"]
)
def test_ids_that_are_none_are_not_found(
    client: Client, known: Everything, operation: Operation, identifier: str
) -> None:
    values = dict.fromkeys(known.paths, identifier) | {"organisation_id": client.organisation}
    body = dict(operation.example) if operation.example is not None else None
    answer = client.at(operation.path.format_map(values), method=operation.method, body=body)
    _check(answer)
    # Any text may be a user's external id, and the tests above may have made such a user.
    if "{" in operation.path.replace("{organisation_id}", "") and "user_id" not in operation.path:
        # What is no upload at all is told before whose id it is for.
        assert answer.status in ((415,) if operation.upload else (404, 422)), answer.raw


# Deletions have no query parameters, and would succeed.
@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.method != "DELETE"],
    ids=lambda operation: operation.id,
)
def test_query_parameters_of_every_kind_are_no_internal_error(
    client: Client, known: Everything, operation: Operation
) -> None:
    values = {} if operation.method == "GET" else {"project_id": make_project(client)["id"]}
    names = [*(operation.query.model_fields if operation.query else ()), "unknown"]
    for value in ("", "x", "-1", "%00", "%F0%9F%92%A9", "9" * 400, new_id()):
        query = "&".join(f"{name}={value}" for name in names)
        body = dict(operation.example) if operation.example is not None else None
        _check(client.at(f"{known.path(operation, **values)}?{query}", method=operation.method, body=body))


def test_a_body_over_the_limit_is_413_and_says_the_limit(client: Client) -> None:
    answer = client("POST", "/systems", raw=b'{"name": "' + b"x" * 1024 * 1024 + b'"}')
    assert answer.status == 413
    assert "1 MiB" in answer.json["message"]


def test_a_compressed_bomb_is_413(client: Client) -> None:
    import gzip

    bomb = gzip.compress(b'{"name": "' + b"x" * 50_000_000 + b'"}')
    answer = client("POST", "/systems", raw=bomb, Content_Encoding="gzip")
    assert answer.status == 413


def test_unknown_paths_and_methods_are_errors_in_our_form(client: Client) -> None:
    unknown = client.at("/api/v2/nothing")
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    wrong = client("PATCH", "/systems", {})
    assert (wrong.status, wrong.json["code"], wrong.headers["Allow"]) == (
        405,
        "method_not_allowed",
        "GET, POST",
    )


def test_a_sane_request_id_comes_back_and_another_is_replaced(client: Client) -> None:
    assert client("GET", "/projects", X_Request_Id="abc-1").headers["X-Request-Id"] == "abc-1"
    assert client("GET", "/projects", X_Request_Id="a b\t").headers["X-Request-Id"] != "a b"


def test_a_bom_before_the_json_is_fine(client: Client) -> None:
    assert client("POST", "/projects", raw=b'\xef\xbb\xbf{"name": "BOM"}').status == 200
