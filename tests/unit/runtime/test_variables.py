"""Variables in code: the activation's, with the schema's defaults, and no run sees what another did to them."""

import json
from typing import Any

import aiohttp
import pytest

from tests.unit.runtime.external_systems import RUN_METADATA, configured, context, environment
from tieline import Context, UnknownVariableError
from tieline.configuration.snapshot import parse_activation
from tieline.variables import with_defaults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "default": "eu"},
        "limits": {"$ref": "#/$defs/limits", "default": {}},
        "shops": {"type": "array", "items": {"$ref": "#/$defs/shop"}},
    },
    "$defs": {
        "limits": {
            "type": "object",
            "properties": {"daily": {"default": 100}, "hourly": {"type": "integer"}},
        },
        "shop": {"type": "object", "properties": {"currency": {"default": "EUR"}}},
    },
}


def test_what_is_not_there_has_the_schemas_default_at_any_depth() -> None:
    found = with_defaults({"shops": [{"name": "a"}, {"name": "b", "currency": "USD"}]}, SCHEMA)
    assert found == {
        "region": "eu",
        "limits": {"daily": 100},
        "shops": [{"name": "a", "currency": "EUR"}, {"name": "b", "currency": "USD"}],
    }
    assert found.limits.daily == 100
    assert found.shops[1].currency == "USD"


def test_what_is_there_wins_over_defaults_even_when_it_is_nothing() -> None:
    assert with_defaults({"region": "", "limits": None}, SCHEMA) == {"region": "", "limits": None}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": 1},
        {"properties": {"a": True, "b": {"$ref": 7}, "c": {"$ref": "https://elsewhere/x"}}},
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_schema_without_defaults_or_that_is_none_changes_nothing(schema: dict[str, Any]) -> None:
    assert with_defaults({"a": {"b": 1}}, schema) == {"a": {"b": 1}}


def test_a_schema_that_refers_to_itself_ends() -> None:
    endless = {"properties": {"child": {"$ref": "#", "default": {}}}}
    assert "child" in with_defaults({}, endless)


def test_variables_are_json() -> None:
    assert json.loads(json.dumps(with_defaults({"limits": {"daily": 1}}, SCHEMA)))["limits"] == {"daily": 1}


def test_a_variable_that_is_not_there_is_told_with_those_that_are() -> None:
    found = with_defaults({}, SCHEMA)
    with pytest.raises(KeyError) as error:
        found["regoin"]
    assert isinstance(error.value, UnknownVariableError)
    assert str(error.value).startswith("There is no variable 'regoin' (there are: 'limits', 'region')")
    with pytest.raises(AttributeError, match="no variable 'regoin'"):
        _ = found.regoin
    assert found.get("regoin", 7) == 7
    assert not hasattr(found, "regoin")


async def test_a_run_has_a_copy_of_its_own(client: aiohttp.ClientSession) -> None:
    body = environment("http://x", variables={"tags": ["a"]}, variablesSchema=SCHEMA)
    configuration = configured(body)
    one, other = context(client, configuration), context(client, configuration)
    one.variables["tags"].append("b")
    one.variables["region"] = "us"
    assert one.variables == {"tags": ["a", "b"], "region": "us", "limits": {"daily": 100}}
    assert other.variables == {"tags": ["a"], "region": "eu", "limits": {"daily": 100}}


async def test_a_users_variables_have_the_defaults_too(client: aiohttp.ClientSession) -> None:
    activation = parse_activation({"user": {"externalId": "ann"}, "variables": {"region": "us"}})
    ctx: Context = Context(
        execution_id="01",
        configuration=configured(environment("http://x", variablesSchema=SCHEMA)),
        client=client,
        run_metadata=RUN_METADATA,
        activation=activation,
    )
    assert (ctx.variables.region, ctx.variables.limits.daily) == ("us", 100)
