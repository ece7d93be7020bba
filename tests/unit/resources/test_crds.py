"""The generated definitions are what Kubernetes accepts, and nothing slips into them unseen."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, StringConstraints

from tieline_core import crds
from tieline_core.resources import KINDS
from tieline_core.resources.fields import Shape

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
