"""Packs the catalogue and the project templates into the wheel: readers then open one file, and need no YAML."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogueHook(BuildHookInterface[Any]):
    """Adds ``catalogue.zip`` and ``project_templates.json`` to ``tieline_catalogue`` in the wheel. An editable
    installation reads the folders."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "core"))
        from tieline_catalogue.packing import pack  # noqa: PLC0415  (found by the line above)
        from tieline_catalogue.template_packing import pack_templates  # noqa: PLC0415

        target = root / "build" / "catalogue.zip"
        target.parent.mkdir(exist_ok=True)
        pack(root / "catalogue", target)
        build_data["force_include"][str(target)] = "tieline_catalogue/catalogue.zip"
        templates = root / "build" / "project_templates.json"
        pack_templates(root / "examples", templates)
        build_data["force_include"][str(templates)] = "tieline_catalogue/project_templates.json"
