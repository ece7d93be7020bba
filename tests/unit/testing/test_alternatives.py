"""Bodies of several kinds: the discriminator says which, and a description that is wrong can be overruled."""

from typing import Any

import pytest

from tests.unit.cli.connector_files import file_of
from tieline.connectors.description import Description, parse
from tieline.connectors.requests import InvalidCallError, PreparedCall, RequestChecks, prepare
from tieline.server.settings import Settings
from tieline.testing.described import answer_of

# Loose: what is a card fits the others, too.
KINDS: dict[str, Any] = {
    "Card": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}, "number": {"type": "string"}},
    },
    "Transfer": {"type": "object", "properties": {"kind": {"type": "string"}, "iban": {"type": "string"}}},
    "Cash": {"type": "object", "properties": {"kind": {"type": "string"}, "till": {"type": "integer"}}},
}
REFERENCES = [{"$ref": f"#/components/schemas/{name}"} for name in KINDS]


def described(schema: dict[str, Any], media_type: str = "application/json") -> Description:
    body = {"required": True, "content": {media_type: {"schema": schema}}}
    answer = {"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Payments", "version": "1"},
        "paths": {"/pay/{id}": {"post": {
            "operationId": "pay", "requestBody": body, "responses": answer,
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
        }}},
        "components": {"schemas": {"Payment": schema, **KINDS}},
    }  # fmt: skip
    return parse("payments", file_of(document))


def called(description: Description, body: Any, path: Any = 7, **more: Any) -> PreparedCall:
    operation = description.operation("pay")
    return prepare(description, operation, path={"id": path}, query={}, headers={}, body=body, **more)


def alternatives(mapping: dict[str, str] | None, key: str = "oneOf") -> dict[str, Any]:
    found: dict[str, Any] = {"propertyName": "kind"}
    return {key: REFERENCES, "discriminator": {**found, "mapping": mapping} if mapping is not None else found}


MAPPING = {"card": "#/components/schemas/Card", "sepa": "Transfer", "cash": "#/components/schemas/Cash"}


@pytest.mark.parametrize("key", ["oneOf", "anyOf"])
@pytest.mark.parametrize(("mapping", "card", "sepa"), [(MAPPING, "card", "sepa"), (None, "Card", "Transfer")])
def test_the_discriminator_says_which_alternative_is_meant(
    key: str, mapping: dict[str, str] | None, card: str, sepa: str
) -> None:
    payments = described(alternatives(mapping, key))
    assert called(payments, {"kind": card, "number": "4"}).options["data"]
    assert called(payments, {"kind": sepa, "number": 4}).options["data"], "a number of no transfer"
    for wrong, where in (
        ({"kind": card, "number": 4}, "body.number"),
        ({"kind": sepa, "iban": 4}, "body.iban"),
        ({"kind": "gold"}, "body.kind"),
    ):
        with pytest.raises(InvalidCallError) as refused:
            called(payments, wrong)
        assert [one.partition(":")[0] for one in refused.value.problems] == [where]


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [KINDS["Transfer"], KINDS["Cash"]], "discriminator": {"propertyName": "kind"}},
        {
            "oneOf": [*REFERENCES, {"type": "object"}],
            "discriminator": {"propertyName": "kind", "mapping": MAPPING},
        },
        {"oneOf": REFERENCES, "discriminator": {"mapping": MAPPING}},
    ],
)
def test_a_discriminator_that_says_nothing_lets_any_alternative_do(schema: dict[str, Any]) -> None:
    payments = described(schema)
    assert called(payments, {"kind": "x"}).options["data"]
    with pytest.raises(InvalidCallError):
        called(payments, "text")


def test_a_value_without_its_discriminator_may_be_any_alternative() -> None:
    assert called(described(alternatives(MAPPING)), {"iban": "DE"}).options["data"]


def test_without_a_discriminator_exactly_one_alternative_has_to_fit() -> None:
    with pytest.raises(InvalidCallError):
        called(described({"oneOf": REFERENCES}), {"kind": "card"})


def test_an_example_names_the_alternative_that_it_is() -> None:
    answer = answer_of(described(alternatives(MAPPING)), "pay", None, {}, check=True)
    assert answer.json() == {"kind": "card"}


def test_a_wrong_description_can_be_overruled_and_not_the_shape_of_a_request() -> None:
    payments = described(KINDS["Cash"])
    wrong = {"till": "first"}
    with pytest.raises(InvalidCallError):
        called(payments, wrong)
    sent = called(payments, wrong, path="seven", checks=RequestChecks.LOG)
    assert (sent.url, sent.options["data"]) == ("/pay/seven", b'{"till":"first"}')
    assert [one.partition(":")[0] for one in sent.findings] == ["path.id", "body.till"]
    for path, body in (("", wrong), (None, wrong), (7, None)):
        with pytest.raises(InvalidCallError):
            called(payments, body, path=path, checks=RequestChecks.LOG)


def test_request_checks_are_set_by_the_environment() -> None:
    environment = {"TIELINE_API_URL": "http://api"}
    assert Settings.from_environment(environment).request_checks is RequestChecks.RAISE
    logged = Settings.from_environment({**environment, "TIELINE_REQUEST_CHECKS": "log"})
    assert logged.request_checks is RequestChecks.LOG


def test_a_form_that_is_described_as_multipart_alone_is_sent_as_multipart() -> None:
    payments = described({"type": "object"}, "multipart/form-data")
    form = called(payments, {"iban": "DE", "till": 7}).options["data"]()
    assert form.content_type.startswith("multipart/form-data")
