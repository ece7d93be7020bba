"""Small files that mean much work, and imperfect ones with much to tell: each costs what its size allows."""

import resource
import time
from typing import Any

import orjson
import pytest

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, UnreadableDescription
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.importer import import_description

OK = {"responses": {"200": {"description": "Fine"}}}


def described(**parts: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "paths": {}, **parts}


def imported(description: dict[str, Any]) -> ImportResult:
    return import_description(orjson.dumps(description))


def texts(result: ImportResult) -> list[str]:
    return [message["text"] for message in result.messages]


def with_patterns(patterns: list[str]) -> dict[str, Any]:
    schemas = {f"S{number}": {"type": "string", "pattern": text} for number, text in enumerate(patterns)}
    return described(components={"schemas": schemas})


def with_shared_items(paths: int) -> dict[str, Any]:
    parameters = [
        {"name": f"q{number}", "in": "query", "schema": {"type": "string"}} for number in range(1000)
    ]
    shared = {f"/p{number}": {"$ref": "#/paths/~1a"} for number in range(paths)}
    return described(paths={"/a": {"get": {**OK, "parameters": parameters}}, **shared})


COSTLY = {
    "3,000 patterns with large Unicode repeats": orjson.dumps(
        with_patterns([rf"^\p{{L}}{{{100 + number % 900}}}{number}$" for number in range(3000)])
    ),
    "20,000 operations of one id": orjson.dumps(
        described(paths={f"/p{number}": {"get": {**OK, "operationId": "x"}} for number in range(20_000)})
    ),
    "a number of 4 million digits in JSON": b'{"openapi": "3.0.3", "paths": {}, "x-n": %s}'
    % (b"9" * 4_000_000),
    "a number of 4 million digits in YAML": b"openapi: 3.0.3\npaths: {}\nx-n: %s\n" % (b"9" * 4_000_000),
    "5,000 paths that share an item": orjson.dumps(with_shared_items(5000)),
}


@pytest.mark.parametrize("data", COSTLY.values(), ids=COSTLY.keys())
def test_small_files_take_little_processor_time(data: bytes) -> None:
    began = time.process_time()
    try:
        import_description(data)
    except UnreadableDescription as refused:
        print(refused)
    # A fifth of a second each on an idle machine; before, 15 to 150.
    assert time.process_time() - began < 5


def test_large_repeats_are_no_wrong_patterns_and_wrong_ones_are_found() -> None:
    wrong = ["a(", r"\p{Nothing}{900}", "[z-a]", "a{5,2}", "(?<n>a)(?<n>b)"]
    fine = [
        r"^[\p{L}\p{N}]{1,255}$",
        r"\w{500}\S{500}",
        "(?:(?:a{30}){30}){30}",
        r"^(?=.*\d)\w{8,}$",
        r"\u0041{3}",
    ]
    told = texts(imported(with_patterns(wrong + fine)))
    assert sorted(text for text in told if "no valid regular" in text) == sorted(
        f'"{pattern}" is no valid regular expression' for pattern in wrong
    )


def test_what_repeats_is_refused_before_it_is_large() -> None:
    with pytest.raises(DescriptionTooLarge, match="share large parts by reference"):
        imported(with_shared_items(5000))
    assert len(imported(with_shared_items(20)).actions) == 21


def test_a_description_with_40_000_deviations_is_imported_and_says_that_there_are_more() -> None:
    paths = {
        f"/p{number}": {"get": {"bad": 1, "responses": {"200": {"description": 1}}}}
        for number in range(20_000)
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = imported(described(paths=paths))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert len(result.actions) == 20_000
    assert sum(text.startswith("Not as OpenAPI 3.0 has it") for text in texts(result)) == 50
    assert any(
        "Only the first 50 deviations" in text and "more deviations were seen" in text
        for text in texts(result)
    )
    assert grown < 200, f"{grown} MiB"


def test_deviations_are_found_wherever_they_stand() -> None:
    result = imported(
        described(
            info={"title": 1},
            paths={"/a": {"get": {**OK, "deprecated": "no"}}},
            components={
                "schemas": {"S": {"type": "thing"}},
                "parameters": {"P": {"in": "query"}},
                "securitySchemes": {"K": {"type": "apiKey"}},
            },
        )
    )
    places = {message.get("detail", [""])[0] for message in result.messages if "Not as" in message["text"]}
    assert {place.removeprefix("at ") for place in places} >= {
        "#/info",
        "#/info/title",
        "#/paths/~1a/get/deprecated",
        "#/components/schemas/S/type",
        "#/components/parameters/P",
        "#/components/securitySchemes/K",
    }


@pytest.mark.parametrize("index", ["00", "000", "01", "٠", "1000000000", "-0"])
def test_indexes_are_written_in_one_way(index: str) -> None:
    def uses(step: str) -> dict[str, Any]:
        content = {"a/b": {"schema": {"$ref": f"#/x-list/{step}"}}}
        return {"responses": {"200": {"description": "D", "content": content}}}

    result = imported(described(paths={"/a": {"get": uses("0"), "put": uses(index)}}, **{"x-list": [{}, {}]}))
    assert [definition["url"] for definition in result.definitions] == ["#/x-list/0"]
    assert any(f"#/x-list/{index}" in text and "nothing that is there" in text for text in texts(result))


def test_a_place_is_one_definition_however_the_reference_is_encoded() -> None:
    ways = ["#/x-a~1b/c", "#/x-a%2Fb/c", "#/%78-a~1b/%63", "#/x-a%7E1b/c"]
    content = {f"a/b{number}": {"schema": {"$ref": way}} for number, way in enumerate(ways)}
    paths = {"/a": {"get": {"responses": {"200": {"description": "D", "content": content}}}}}
    result = imported(described(paths=paths, **{"x-a/b": {"c": {"type": "string"}}}))
    assert [definition["url"] for definition in result.definitions] == ["#/x-a~1b/c"]
    assert result.definitions[0]["accept"] == [f"a/b{number}" for number in range(4)]
