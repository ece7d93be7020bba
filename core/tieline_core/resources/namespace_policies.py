"""What an administrator sets for an organisation: annotations of its Namespace, which its members may not write.

An annotation is written in YAML or JSON, and a model says what may be in it.
"""

from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tieline_core.objects import ObjectView

_MAX_BYTES = 32 << 10
_SHOWN_ERRORS = 3
M = TypeVar("M", bound=BaseModel)


class PolicyError(ValueError):
    """The text cannot be used; the message says why."""


def annotation_of(namespace: ObjectView | None, name: str) -> str:
    """The text of a Namespace's annotation; empty where it has none."""
    annotations = (namespace["metadata"].get("annotations") or {}) if namespace else {}
    return str(annotations.get(name, ""))


def read_policy(model: type[M], text: str) -> M:
    """The policy in a text, written in YAML or JSON; an empty text sets nothing. Raises PolicyError."""
    if not text.strip():
        return model()
    if len(text.encode()) > _MAX_BYTES:
        raise PolicyError(f"it has more than {_MAX_BYTES >> 10} KiB")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        # A ValueError is of a scalar that looks like a number or a date, such as 2026-02-30.
        raise PolicyError("it is no YAML") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise PolicyError(_shown(error)) from None


def _shown(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, one['loc'])) or 'the text'}: {one['msg']}" for one in found[:_SHOWN_ERRORS]]
    return "; ".join(lines)
