"""What mypy reports of code that reads stored objects."""

from pathlib import Path

from tests.harness.cluster.kubectl import ROOT
from tests.harness.inputs.type_checkers import mypy, mypy_cache
from tieline_core import object_types

VIEW = """\
from stored import ActivationObject

def shown(activation: ActivationObject) -> str:
    if activation["spec"].get("endUserReference"):
        return ""
    if (activation.get("status") or {}).get("condition"):
        return ""
    activation["spec"]["environment"] = "other"
    if activation["spec"].get("endUserRef"):
        return activation["spec"]["environment"]
    return activation["spec"]["enviroment"]
"""


def test_misspelt_fields_and_writes_to_shared_objects_are_reported(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nplugins = {ROOT / 'deploy/mypy_typed_dicts.py'}\n")
    text = (ROOT / object_types.PATH).read_text(encoding="utf-8")
    (tmp_path / "stored.py").write_text(text.replace("from tieline_core.objects", "from metadata"))
    (tmp_path / "metadata.py").write_text((ROOT / "core/tieline_core/objects.py").read_text(encoding="utf-8"))
    (tmp_path / "view.py").write_text(VIEW)
    found = mypy(tmp_path, cached=Path(mypy_cache("typed-dicts")))
    assert found.lines("view.py") == [4, 6, 8, 11], found.output
    assert {Path(file).name for file, _, _ in found.errors} == {"view.py"}
