"""Examples of the OpenAPI document, from ``examples.yaml``."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

_TEXT = files("tieline_api.schemas").joinpath("examples.yaml").read_text(encoding="utf-8")
_LOADED = yaml.load(_TEXT, Loader=yaml.CSafeLoader)

MODELS: Mapping[str, Any] = _LOADED["models"]
"""Of bodies and answers, by the names of their models."""

OPERATIONS: Mapping[str, Mapping[str, Any]] = _LOADED["operations"]
"""``request`` and ``response`` of operations whose examples differ from those of their models."""
