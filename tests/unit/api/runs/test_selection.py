"""Which runs a request on many of them means: never other ones than its sender wrote."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from pydantic import ValidationError

from tieline_api.errors import ApiError
from tieline_api.http.request_body import refuse_repeated_parameters, validate_query
from tieline_api.schemas.runs import SelectionBody, SelectionQuery
from tieline_api.views.run_lookup import agreed_selection
from tieline_core.identity.ids import new_id

DAY = "2026-11-25T00:00:00Z"


def agreed(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return agreed_selection(SelectionQuery.model_validate(query), SelectionBody.model_validate(body))


def test_filters_of_query_and_body_hold_together() -> None:
    assert agreed({"status": ["dead"], "dryRun": "true"}, {"task": "order.created", "project_env": None}) == {
        "status": ["dead"],
        "task": "order.created",
        "dryRun": True,
    }
    assert agreed({"status": ["dead"], "start": DAY}, {"status": "dead", "start": DAY}).keys() == {
        "status",
        "start",
    }


@pytest.mark.parametrize(
    ("query", "body", "field"),
    [
        ({"status": ["dead"]}, {"status": "succeeded"}, "status"),
        ({"tag": ["order:1"]}, {"tag": ["order:2"]}, "tag"),
        ({"replayed": "false"}, {"replayed": True}, "replayed"),
        ({"status": ["dead"], "dryRun": "true"}, {"dryRun": False}, "dryRun"),
        ({"status": ["dead"], "dryRun": "false"}, {"dryRun": True}, "dryRun"),
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
        ("task=a&task=b", ["task"]),
        ("dryRun=true&status=dead&dryRun=false", ["dryRun"]),
        ("search=1&search=2&task=a&task=", ["search", "task"]),
    ],
)
def test_a_query_parameter_with_several_values_is_refused_by_name(query: str, fields: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        refuse_repeated_parameters(SelectionQuery, make_mocked_request("POST", f"/runs/replay?{query}"))
    assert (refused.value.status, [one.field for one in refused.value.fields]) == (422, fields)


def test_a_query_parameter_that_is_sent_twice_with_one_value_is_accepted() -> None:
    refuse_repeated_parameters(
        SelectionQuery, make_mocked_request("POST", "/runs/replay?task=a&task=a&dryRun=true")
    )


def test_a_list_may_be_sent_several_times() -> None:
    request = make_mocked_request(
        "POST", "/runs/replay?status=dead&tag=order:N-1&tag=paid:True&status=failed"
    )
    refuse_repeated_parameters(SelectionQuery, request)
    found = validate_query(SelectionQuery, request)
    assert (found.status, found.tag) == (["dead", "failed"], ["order:N-1", "paid:True"])


def test_runs_are_chosen_by_their_ids_in_either_case() -> None:
    run = new_id()
    assert agreed({}, {"ids": [run.lower()]}) == {"ids": [run]}
    assert agreed({"ids": [run]}, {"ids": [run]}) == {"ids": [run]}
    with pytest.raises(ApiError):
        agreed({"ids": [run]}, {"ids": [new_id()]})


@pytest.mark.parametrize("ids", [[], ["no-id"], [new_id() for _ in range(101)], "all"])
def test_ids_of_runs_are_few_and_ids(ids: object) -> None:
    with pytest.raises(ValidationError, match="ids"):
        SelectionBody.model_validate({"ids": ids})


@pytest.mark.parametrize("field", ["status", "tag"])
def test_an_empty_list_does_not_mean_all_runs(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        SelectionBody.model_validate({field: [], "task": "order.created"})


@pytest.mark.parametrize("tag", ["order", "Order:1", "order:", "order:a%00b", f"order:{'x' * 201}"])
def test_what_is_no_tag_is_refused_by_name(tag: str) -> None:
    with pytest.raises(ApiError) as refused:
        validate_query(SelectionQuery, make_mocked_request("POST", f"/runs/replay?tag=paid:True&tag={tag}"))
    assert (refused.value.status, refused.value.fields[0].field.startswith("tag")) == (422, True)
