"""YAML by libyaml: rendered charts have megabytes of definitions, which take PyYAML's own parser seconds each."""

from collections.abc import Iterator
from typing import Any

import yaml


def load(text: str | bytes) -> Any:
    """As ``yaml.safe_load``."""
    return yaml.load(text, yaml.CSafeLoader)


def load_all(text: str | bytes) -> Iterator[Any]:
    """As ``yaml.safe_load_all``."""
    return yaml.load_all(text, yaml.CSafeLoader)
