"""The generated definitions are what Kubernetes accepts, and nothing slips into them unseen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field, StringConstraints

from tieline_core import crds
from tieline_core.resources import KINDS
from tieline_core.resources.connection_templates import ConnectionTemplate
from tieline_core.resources.connector_versions import ConnectorVersion
from tieline_core.resources.fields import Shape, Status
from tieline_core.resources.kinds import CustomResource, Kind

ROOT = Path(__file__).resolve().parents[3]


def schema_of(model: type[Shape]) -> dict[str, Any]:
    document = model.model_json_schema(by_alias=True)
    return crds.structural(document, definitions=document.pop("$defs", {}), path=model.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_yaml_in_crds_is_what_the_models_generate(kind):
    path = ROOT / "crds" / f"{kind.kind_info.plural}.yaml"
    assert path.read_text(encoding="utf-8") == crds.render(kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_documented_for_kubectl_explain(kind):
    undocumented = []

    def walk(node, path):
        for name, child in node.get("properties", {}).items():
            if not child.get("description"):
                undocumented.append(f"{path}.{name}")
            walk(child, f"{path}.{name}")
        if "items" in node:
            walk(node["items"], f"{path}[]")

    schema = crds.definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        walk(schema["properties"][part], part)
    assert undocumented == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_list_says_how_writers_share_it(kind):
    unsaid = []

    def walk(node, path):
        for name, child in node.get("properties", {}).items():
            walk(child, f"{path}.{name}")
        for keyword in ("items", "additionalProperties"):
            if isinstance(node.get(keyword), dict):
                walk(node[keyword], f"{path}[]")
        if node.get("type") == "array" and "x-kubernetes-list-type" not in node:
            unsaid.append(path)

    walk(crds.definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"], kind.__name__)
    assert unsaid == []


# Columns of any length: sentences, names for people, addresses.
_LONG = {".spec.name", ".spec.displayName", ".spec.templateBaseUrl"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_table_fits_a_terminal_and_has_one_name(kind):
    version = crds.definition(kind)["spec"]["versions"][0]
    columns = version["additionalPrinterColumns"]
    names = [column["name"].upper() for column in columns]
    assert len({"NAME", *names}) == len(names) + 1, "kubectl itself shows NAME"
    table = [column for column in columns if not column.get("priority")]
    assert len(table) <= 7
    assert [column["name"] for column in table][-3:] == ["Ready", "Reason", "Age"]
    assert not [column for column in table if column["jsonPath"].endswith(".message")]
    if kind not in (ConnectionTemplate, ConnectorVersion):  # there it is the name that code and REST use
        assert not [column for column in table if column["jsonPath"] in _LONG]
    assert [column["name"] for column in columns if column["jsonPath"].endswith('"Ready")].message')] == [
        "Message"
    ]


def test_no_short_name_is_a_plain_word():
    """kubectl takes whichever kind of the cluster claims it first."""
    short = [name for kind in KINDS for name in kind.kind_info.short_names]
    assert len(short) == len(set(short)) == len(KINDS)
    assert not [name for name in short if not name.startswith("tl")]


def test_an_optional_field_is_one_that_may_be_absent():
    class Model(Shape):
        note: Annotated[str, StringConstraints(max_length=5)] | None = None

    assert schema_of(Model)["properties"]["note"] == {"type": "string", "maxLength": 5}
    assert "required" not in schema_of(Model)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (str, "string needs max_length"),
        (Annotated[list[int], Field()], "list needs max_length"),
        (dict[str, int], "map needs max_length"),
        (int | bool, "one type"),
        (tuple[int, int], "prefixItems"),
    ],
    ids=["unbounded string", "unbounded list", "unbounded map", "two types", "tuple"],
)
def test_a_field_that_a_definition_cannot_say_is_refused_with_its_place(annotation, message):
    model = type("Model", (Shape,), {"__annotations__": {"value": annotation}, "__module__": __name__})
    with pytest.raises(crds.SchemaError, match=rf"Model\.value.*{message}"):
        schema_of(model)


def test_a_model_that_holds_itself_is_refused():
    with pytest.raises(crds.SchemaError, match="holds itself"):
        crds._without_reference({"$ref": "#/$defs/A"}, definitions={"A": {"$ref": "#/$defs/A"}}, path="Model")


def test_what_people_write_is_refused_in_words() -> None:
    """Kubernetes shows the regular expression of a pattern as it is."""

    def patterns(schema: dict[str, Any], path: str) -> Iterator[str]:
        if "pattern" in schema and not schema.get("x-kubernetes-int-or-string"):
            yield path
        for name, child in schema.get("properties", {}).items():
            yield from patterns(child, f"{path}.{name}")
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                yield from patterns(schema[keyword], f"{path}.{keyword}")

    left = {
        path
        for kind in KINDS
        for version in crds.definition(kind)["spec"]["versions"]
        for path in patterns(version["schema"]["openAPIV3Schema"]["properties"]["spec"], kind.kind_info.name)
    }
    assert left == {
        "Project.environments.items.runtime.env.items.valueFrom.secretKeyRef.key",
        "Project.runtime.env.items.valueFrom.secretKeyRef.key",
        "Project.source.configMaps.items.items.items.key",
        "ProjectVersion.configMaps.items.items.items.key",
        "Connector.description.configMaps.items.key",
    }


def test_a_pattern_without_words_is_refused() -> None:
    class Odd(Shape):
        name: Annotated[str, StringConstraints(max_length=8, pattern="^odd$")]

    class OddKind(CustomResource):
        kind_info: ClassVar = Kind(name="Odd", plural="odds", short_names=(), columns=())
        spec: Odd
        status: Status

    with pytest.raises(crds.SchemaError, match="needs words for people"):
        crds.definition(OddKind)
