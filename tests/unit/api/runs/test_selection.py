"""Which runs a request on many of them means: never other ones than its sender wrote."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from tieline_api.errors import ApiError
from tieline_api.handlers.run_lookup import agreed_selection
from tieline_api.http.request_body import refuse_repeated_parameters
from tieline_api.schemas.runs import SelectionBody, SelectionQuery

DAY = "2026-11-25T00:00:00Z"


def agreed(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return agreed_selection(SelectionQuery.model_validate(query), SelectionBody.model_validate(body))


def test_filters_of_query_and_body_hold_together() -> None:
    assert agreed({"status": "dead", "dryRun": "true"}, {"task": "order.created", "project_env": None}) == {
        "status": "dead",
        "task": "order.created",
        "dryRun": True,
    }
    assert agreed({"status": "dead", "start": DAY}, {"status": "dead", "start": DAY}).keys() == {
        "status",
        "start",
    }


@pytest.mark.parametrize(
    ("query", "body", "field"),
    [
        ({"status": "dead"}, {"status": "succeeded"}, "status"),
        ({"replayed": "false"}, {"replayed": True}, "replayed"),
        ({"status": "dead", "dryRun": "true"}, {"dryRun": False}, "dryRun"),
        ({"status": "dead", "dryRun": "false"}, {"dryRun": True}, "dryRun"),
    ],
)
def test_a_filter_with_two_values_is_refused_rather_than_one_of_them_ignored(
    query: dict[str, Any], body: dict[str, Any], field: str
) -> None:
    with pytest.raises(ApiError) as refused:
        agreed(query, body)
    assert (refused.value.status, [one.field for one in refused.value.fields]) == (422, [field])


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("status=dead&status=succeeded", ["status"]),
        ("dryRun=true&status=dead&dryRun=false", ["dryRun"]),
        ("search=1&search=2&task=a&task=", ["search", "task"]),
    ],
)
def test_a_query_parameter_with_several_values_is_refused_by_name(query: str, fields: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        refuse_repeated_parameters(make_mocked_request("POST", f"/runs/replay?{query}"))
    assert (refused.value.status, [one.field for one in refused.value.fields]) == (422, fields)


def test_a_query_parameter_that_is_sent_twice_with_one_value_is_accepted() -> None:
    refuse_repeated_parameters(
        make_mocked_request("POST", "/runs/replay?status=dead&status=dead&dryRun=true")
    )
