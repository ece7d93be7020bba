"""The API server answers 500 to an apply that does not fit the schema: it is the object that is wrong."""

import pytest

from tieline_core.kubernetes import Invalid, Unavailable
from tieline_core.kubernetes.errors import from_status

# As Kubernetes 1.34 words them.
BEGIN = "failed to create typed patch object (acme/shop; tieline.dev/v1alpha1, Kind=System): "


@pytest.mark.parametrize(
    ("message", "causes"),
    [
        (f"{BEGIN}.spec.nme: field not declared in schema", [("spec.nme", "field not declared in schema")]),
        (
            f"{BEGIN}.spec.name: expected string, got &value.valueUnstructured{{Value:1}}",
            [("spec.name", "expected string")],
        ),
        (
            f'{BEGIN}.spec.authSchemeConfigs: duplicate entries for key [id="a"]',
            [("spec.authSchemeConfigs", 'duplicate entries for key [id="a"]')],
        ),
        (
            f"{BEGIN}errors:\n  .spec.a: field not declared in schema\n  .b: expected map, got &{{[x]}}",
            [("spec.a", "field not declared in schema"), ("b", "expected map")],
        ),
        (
            "failed to convert new object (acme/s; /v1, Kind=Secret) to proper version: unable to convert "
            "unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 7",
            [],
        ),
    ],
)
def test_a_shape_that_is_refused_is_invalid_and_names_its_fields(
    message: str, causes: list[tuple[str, str]]
) -> None:
    error = from_status(500, {"message": message, "code": 500}, doing="apply")
    assert isinstance(error, Invalid)
    assert (error.status, error.reason) == (422, "Invalid")
    assert [(cause["field"], cause["message"]) for cause in error.causes] == causes


def test_a_refused_shape_of_a_secret_names_the_field_alone() -> None:
    message = "failed to create typed patch object (acme/s; /v1, Kind=Secret): .data.a: expected string, got &hunter2"
    error = from_status(500, {"message": message}, doing="apply", sensitive=True)
    assert str(error) == "apply: Invalid (data.a)"
    assert error.causes == ({"reason": "FieldValueInvalid", "field": "data.a"},)


def test_any_other_500_is_the_servers_failure() -> None:
    error = from_status(500, {"message": "etcdserver: request timed out"}, doing="apply")
    assert isinstance(error, Unavailable)
