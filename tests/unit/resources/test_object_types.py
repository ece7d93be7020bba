"""The types of stored objects are those of the definitions."""

from typing import Any, get_args, get_origin

import pytest
from typing_extensions import get_type_hints, is_typeddict

from tests.harness.cluster.kubectl import ROOT
from tieline_core import crds, object_types
from tieline_core.resources import KINDS, objects
from tieline_core.resources.kinds import CustomResource


def test_the_types_are_what_the_models_generate() -> None:
    assert (ROOT / object_types.PATH).read_text(encoding="utf-8") == object_types.render()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_type_has_the_fields_of_the_definition(kind: type[CustomResource]) -> None:
    version = crds.definition(kind)["spec"]["versions"][0]
    stored = get_type_hints(getattr(objects, f"{kind.__name__}Object"))
    differing: list[str] = []

    def compare(hint: Any, schema: dict[str, Any], path: str) -> None:
        if is_typeddict(hint):
            properties = schema.get("properties", {})
            always = set(schema.get("required", ())) | {
                name for name in properties if "default" in properties[name]
            }
            if (hint.__required_keys__, hint.__annotations__.keys()) != (always, properties.keys()):
                differing.append(path)
            for name, one in get_type_hints(hint).items():
                compare(one, properties.get(name, {}), f"{path}.{name}")
        elif get_origin(hint) is list:
            compare(get_args(hint)[0], schema["items"], f"{path}[]")

    for part in ("spec", "status"):
        compare(stored[part], version["schema"]["openAPIV3Schema"]["properties"][part], part)
    assert differing == []
