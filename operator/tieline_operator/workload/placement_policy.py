"""What an administrator sets about the pods of an organisation: defaults, what is required, and what is allowed.

It is an annotation of the organisation's Namespace, which its members may not write.
"""

from functools import lru_cache

from tieline_core.objects import ObjectView
from tieline_core.resources.namespace_policies import annotation_of
from tieline_core.resources.namespace_policies import read_policy as read
from tieline_core.resources.placement import PlacementPolicy, Toleration, TolerationOperator

PLACEMENT_ANNOTATION = "tieline.dev/placement"
_KEPT = 256


def placement_annotation(namespace: ObjectView | None) -> str:
    """The text of a Namespace's annotation; empty where it has none."""
    return annotation_of(namespace, PLACEMENT_ANNOTATION)


@lru_cache(maxsize=_KEPT)
def read_policy(text: str) -> PlacementPolicy:
    """The policy in an annotation, written in YAML or JSON. Raises PolicyError."""
    return read(PlacementPolicy, text)


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
