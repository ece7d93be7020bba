"""What a real API server keeps of server-side apply, which it reads as YAML: exactly what was sent."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import PROJECTS

pytestmark = pytest.mark.cluster

# Single code points of all planes; those whose treatment YAML and JSON disagree about come more often.
TROUBLESOME = "\x00\t\n\r\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffe\uffff\U0001fffe\U0010ffff"
TROUBLESOME += "\"'\\/:#{}[],&*!|>%@`~?-"
LETTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(TROUBLESOME)
TEXTS = st.text(alphabet=LETTERS, max_size=40) | st.sampled_from(
    ["<<", "=", "null", "yes", "1e3", "0x1f", "012", "2026-01-01", "", " ", "- a", "? a", "a: b", "k" * 1500]
)
# Where a double has no digits left for fractions, Kubernetes writes floats as integers (the nearest decimal one).
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def a_project(namespace: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "letters", "namespace": namespace},
        "spec": {"name": "Letters", "dynamicVariablesSchema": schema},
    }


async def applied(kube: Kube, namespace: str, schema: dict[str, Any], *, dry_run: bool = True) -> Any:
    project = a_project(namespace, schema)
    answer = await kube.apply(PROJECTS, project, field_manager="test", force=True, dry_run=dry_run)
    return answer.object["spec"]["dynamicVariablesSchema"]


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(schema=st.dictionaries(TEXTS, VALUES, max_size=6))
@example(schema={"a\x85b": "a\u2028b\u2029c\x7f\x80\x9f\ufffe\uffff\ufeff"})
@example(schema={"k" * 1100: {"\x00" * 300: [{"\x85" * 999: 1}]}})
def test_what_is_applied_is_what_was_sent(
    runner: asyncio.Runner, runner_kube: Kube, namespace: str, schema: dict[str, Any]
) -> None:
    assert runner.run(applied(runner_kube, namespace, schema)) == schema


async def test_every_character_of_all_planes_is_stored_as_it_was_sent(kube: Kube, namespace: str) -> None:
    """Each code point once, in keys and in values, written and read back."""
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    size = 60_000
    for start in range(0, len(points), size):
        text = "".join(map(chr, points[start : start + size]))
        values = {"values": [text[at : at + 500] for at in range(0, len(text), 500)]}
        await applied(kube, namespace, values, dry_run=False)
        stored = await kube.get(PROJECTS, "letters", namespace)
        assert stored["spec"]["dynamicVariablesSchema"] == values
    # In keys, the first two planes: they hold all that is special, and the ends of the others.
    ends = [plane << 16 | low for plane in range(17) for low in (0, 0xFFFD, 0xFFFE, 0xFFFF)]
    for group in (points[:0x3000], points[0xF000 - 0x800 : 0x10000 - 0x800], ends):
        keys = {f"k{chr(point)}": point for point in group}
        assert await applied(kube, namespace, keys) == keys
