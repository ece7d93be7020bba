"""Errors in the contract's form, which tell what to do and never what was sent."""

import pytest
from pydantic import ValidationError

from tieline_api import errors
from tieline_api.http.request_body import validate
from tieline_api.schemas.connections import ConnectionUpdate
from tieline_api.schemas.systems import SystemCreate
from tieline_core.kubernetes import errors as kube

SECRET = "hunter2-do-not-tell"


def _fields(error: errors.ApiError) -> dict[str, str]:
    return {item.field: item.message for item in error.fields}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            {"credentials": [{"credential": {"data": {"string": SECRET}}}]},
            "credentials[0].credential.data.string",
        ),
        ({"credentials": [{"credential": {"type": SECRET}}]}, "credentials[0].credential.type"),
        (
            {"credentials": [{}, {"credential": {"data": {"binary": {"valueBase64": SECRET}}}}]},
            "credentials[1].credential.data.binary.valueBase64",
        ),
        (
            {"credentials": [{"credential": {"data": {"basicAuth": {"password": [SECRET]}}}}]},
            "credentials[0].credential.data.basicAuth.password",
        ),
        ({"credentials": {SECRET: SECRET}}, "credentials"),
        ({"baseUrl": SECRET}, "baseUrl"),
        ({"name": SECRET * 50}, "name"),
    ],
)
def test_a_refused_field_is_named_without_its_value(body: dict[str, object], field: str) -> None:
    with pytest.raises(errors.ApiError) as caught:
        validate(ConnectionUpdate, body)
    error = caught.value
    assert error.status == 422
    assert error.code == "validation_failed"
    assert list(_fields(error)) == [field]
    assert SECRET not in str(error.body())


def test_a_missing_field_is_required() -> None:
    with pytest.raises(errors.ApiError) as caught:
        validate(SystemCreate, {"name": "Shop", "domain": "shop.example", "authSchemeConfigs": []})
    assert _fields(caught.value) == {"templateBaseUrl": "is required"}


def test_a_body_that_is_no_object_is_422() -> None:
    with pytest.raises(errors.ApiError) as caught:
        validate(SystemCreate, ["a"])
    assert caught.value.status == 422


def test_a_body_nested_too_deep_is_422() -> None:
    body: dict[str, object] = {}
    for _ in range(200):
        body = {"a": body}
    with pytest.raises(errors.ApiError) as caught:
        validate(SystemCreate, body)
    assert "nested" in caught.value.message


def test_a_field_of_another_manager_is_409_and_names_both() -> None:
    error = errors.from_kube(
        kube.Conflict(
            "conflict",
            status=409,
            causes=(
                {
                    "reason": "FieldManagerConflict",
                    "field": ".spec.name",
                    "message": 'conflict with "argocd" using tieline.dev/v1alpha1',
                },
            ),
        )
    )
    assert error.status == 409
    assert '"argocd"' in error.message
    assert "name" in _fields(error)


def test_what_kubernetes_finds_invalid_is_422_without_the_value() -> None:
    error = errors.from_kube(
        kube.Invalid(
            "invalid",
            status=422,
            causes=({"field": "spec.domain", "message": f'Invalid value: "{SECRET}": must be shorter'},),
        )
    )
    assert (error.status, _fields(error)) == (422, {"domain": "must be shorter"})
    assert SECRET not in str(error.body())


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (kube.NotFound("gone"), 404),
        (kube.AlreadyExists("there"), 409),
        (kube.Conflict("changed"), 409),
        (kube.Forbidden("exceeded quota: pods"), 403),
        (kube.TooManyRequests("slow"), 429),
        (kube.Unavailable("down"), 503),
        (kube.Gone("old"), 503),
        (kube.Unauthorized("who"), 503),
    ],
)
def test_each_answer_of_kubernetes_has_its_status(raised: kube.KubeError, status: int) -> None:
    error = errors.from_kube(raised)
    assert error.status == status
    if status in (429, 503):
        assert int(error.headers["Retry-After"]) >= 1


def test_a_limit_is_told_in_bytes_and_in_words() -> None:
    error = errors.too_large("The body", limit=1024 * 1024)
    assert error.status == 413
    assert "1,048,576 bytes (1 MiB)" in error.message


def test_many_findings_are_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        ConnectionUpdate.model_validate({"credentials": [{"id": 1}] * 16})
    assert len(errors.from_validation(caught.value).fields) <= errors.MAX_FIELDS
