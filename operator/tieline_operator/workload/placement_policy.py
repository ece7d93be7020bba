"""What an administrator sets about the pods of an organisation: defaults, what is required, and what is allowed.

It is an annotation of the organisation's Namespace, which its members may not write.
"""

from functools import lru_cache

import yaml
from pydantic import ValidationError

from tieline_core.objects import ObjectView
from tieline_core.resources.placement import PlacementPolicy, Toleration, TolerationOperator

PLACEMENT_ANNOTATION = "tieline.dev/placement"
_MAX_BYTES = 32 << 10
_SHOWN_ERRORS = 3
_KEPT = 256


class PolicyError(ValueError):
    """The annotation cannot be used; the message says why."""


def placement_annotation(namespace: ObjectView | None) -> str:
    """The text of a Namespace's annotation; empty where it has none."""
    annotations = (namespace["metadata"].get("annotations") or {}) if namespace else {}
    return str(annotations.get(PLACEMENT_ANNOTATION, ""))


@lru_cache(maxsize=_KEPT)
def read_policy(text: str) -> PlacementPolicy:
    """The policy in an annotation, written in YAML or JSON. Raises PolicyError."""
    if not text.strip():
        return PlacementPolicy()
    if len(text.encode()) > _MAX_BYTES:
        raise PolicyError(f"it has more than {_MAX_BYTES >> 10} KiB")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise PolicyError("it is no YAML") from None
    try:
        return PlacementPolicy.model_validate(content)
    except ValidationError as error:
        raise PolicyError(_shown(error)) from None


def allows(allowed: Toleration, wanted: Toleration) -> bool:
    """Whether a toleration that an administrator allows covers another one.

    >>> pool = Toleration(key="pool", operator="Exists")
    >>> allows(pool, Toleration(key="pool", value="gpu")), allows(pool, Toleration(operator="Exists"))
    (True, False)
    """
    all_values = allowed.operator is TolerationOperator.EXISTS
    same_value = (allowed.operator, allowed.value) == (wanted.operator, wanted.value)
    same_key = allowed.key == wanted.key or (all_values and not allowed.key)
    return same_key and (all_values or same_value) and allowed.effect in (None, wanted.effect)


def _shown(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, one['loc'])) or 'the text'}: {one['msg']}" for one in found[:_SHOWN_ERRORS]]
    return "; ".join(lines)
