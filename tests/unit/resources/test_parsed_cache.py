"""What many objects refer to is validated once for each state that it has, and never taken for another state."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.unit.operator import objects as o
from tieline_core.resources import System
from tieline_core.resources.parsed_cache import ParsedObjectCache


def test_a_state_is_read_once_and_another_one_anew() -> None:
    readings, first = ParsedObjectCache(System), o.system(name="shop")
    assert readings.of(first) is readings.of(first)
    second = {**first, "spec": {**first["spec"], "name": "Renamed"}}
    assert readings.of(second).spec.name == "Renamed", "of the same uid and version, and another object"
    assert readings.of(first).spec.name == "Shop"


def test_what_cannot_be_read_is_refused_each_time() -> None:
    readings, broken = ParsedObjectCache(System), {**o.system(), "spec": {}}
    for _ in range(2):
        with pytest.raises(ValidationError):
            readings.of(broken)


def test_only_those_that_were_read_last_are_kept() -> None:
    readings = ParsedObjectCache(System, limit=2)
    objects = [o.system(name) for name in ("a", "b", "c")]
    kept = [readings.of(objects[0]), readings.of(objects[1])]
    assert readings.of(objects[0]) is kept[0]
    readings.of(objects[2])
    assert readings.of(objects[0]) is kept[0], "it was used after the other"
    assert readings.of(objects[1]) is not kept[1]
