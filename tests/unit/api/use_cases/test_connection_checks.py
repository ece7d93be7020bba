"""Tests of connections."""

from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import ValidationError

from tieline.telemetry.redaction import Redactor
from tieline_api.cluster import revisions
from tieline_api.connection_requests.client import SystemAnswer
from tieline_api.schemas.connections import ConnectionTest
from tieline_api.schemas.systems import ConnectionCheck as RestCheck
from tieline_api.use_cases import connection_checks
from tieline_core.resources.systems import ConnectionCheck
from tieline_protocol.url_inputs import UrlInputError

BEFORE = {"metadata": {"namespace": "acme", "name": "c", "resourceVersion": "7", "uid": "u"}, "spec": {}}
AFTER = {**BEFORE, "metadata": {**BEFORE["metadata"], "resourceVersion": "8"}}


@pytest.mark.parametrize(("known", "header"), [(AFTER, "connections:8"), (BEFORE, None)])
async def test_a_test_answers_with_the_revision_of_the_state_it_wrote(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], header: str | None
) -> None:
    async def sent(*_given: Any, **_more: Any) -> Any:
        headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
        return SystemAnswer(status=401, headers=headers, body=b"no", redact=Redactor(), rejected=True)

    async def answered(*_given: Any, **_more: Any) -> dict[str, Any]:
        return known

    monkeypatch.setattr(connection_checks, "send_through", sent)
    cluster = SimpleNamespace(systems=None, referred=lambda *_given: {"spec": {"check": {"path": "/me"}}})
    call: Any = SimpleNamespace(
        platform=SimpleNamespace(cluster=cluster, outcomes=SimpleNamespace(answered=answered))
    )
    writes = revisions.recording()
    result = await connection_checks.run_test(call, BEFORE, ConnectionTest())
    assert not result.ok
    assert writes.header() == header


async def test_a_check_by_post_sends_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    async def sent(_call: Any, _obj: Any, request: Any, **_more: Any) -> Any:
        requests.append(request)
        headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
        return SystemAnswer(status=500, headers=headers, body=b"", redact=Redactor())

    monkeypatch.setattr(connection_checks, "send_through", sent)
    check = {"method": "POST", "path": "/graphql", "body": '{"query": "{ viewer { id } }"}'}
    cluster = SimpleNamespace(systems=None, referred=lambda *_given: {"spec": {"check": check}})
    call: Any = SimpleNamespace(platform=SimpleNamespace(cluster=cluster))
    await connection_checks.run_test(call, BEFORE, ConnectionTest())
    (request,) = requests
    assert (request.method, request.path, request.body) == ("POST", "/graphql", check["body"].encode())
    assert request.headers["Content-Type"] == "application/json"
    await connection_checks.run_test(call, BEFORE, ConnectionTest(path="/me"))
    assert (requests[1].method, requests[1].body) == ("GET", b"")
    assert "Content-Type" not in requests[1].headers


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"method": "POST", "path": "/graphql"}, "POST needs a body"),
        ({"path": "/me", "body": "{}"}, "POST needs a body"),
        ({"method": "POST", "path": "/graphql", "body": "{ viewer }"}, "must be JSON"),
        ({"method": "POST", "path": "/graphql", "body": "[" * 4000}, "must be JSON"),
        ({"method": "POST", "path": "/graphql", "body": "NaN"}, "must be JSON"),
        ({"method": "POST", "path": "/graphql", "body": f'"{"x" * 4096}"'}, "4096"),
    ],
)
def test_a_check_with_a_wrong_body_is_refused(check: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RestCheck.model_validate(check)


def test_variables_fill_the_path_of_a_check() -> None:
    check = ConnectionCheck(path="/v3/company/{realm}/info?of={realm}")
    system = {"inputs": [{"name": "realm", "pattern": "^.*$"}], "variables": {"realm": "7"}}
    path = connection_checks.check_path(check, {"variables": {"realm": "46208"}}, system)
    assert path == "/v3/company/46208/info?of=46208"
    assert connection_checks.check_path(check, {}, system) == "/v3/company/7/info?of=7"
    for hostile in ("", "..", "a/b", "a?b", "a&b=c", "%2e"):
        with pytest.raises(UrlInputError):
            connection_checks.check_path(check, {"variables": {"realm": hostile}}, system)
