"""Schemas describe fields by the docstrings below them."""

from __future__ import annotations

import subprocess
import sys
from typing import Generic, TypeVar

from pydantic import Field

from tieline_core.documented_model import DocumentedModel

T = TypeVar("T")


class Part(DocumentedModel):
    number: int = 0
    """How many."""
    plain: str = ""


class Whole(Part, Generic[T]):
    """A whole."""

    part: Part | None = None
    """
    A part of it,
      indented.
    """
    named: T | None = Field(default=None, alias="Named", description="By the field.")
    """By the docstring."""
    plain: str = "declared again"


class Outer:
    class Inner(DocumentedModel):
        field: int = 0
        """Of the inner one."""


def described(model: type[DocumentedModel]) -> dict[str, str | None]:
    properties = model.model_json_schema()["properties"]
    return {name: one.get("description") for name, one in properties.items()}


def test_fields_have_the_docstrings_of_the_class_that_declares_them() -> None:
    expected = {
        "number": "How many.",
        "plain": None,
        "part": "A part of it,\n  indented.",
        "Named": "By the field.",
    }
    assert described(Whole) == described(Whole[int]) == expected
    assert described(Outer.Inner) == {"field": "Of the inner one."}


def test_a_model_without_a_source_has_no_descriptions() -> None:
    made: dict[str, type[DocumentedModel]] = {}
    exec(
        "class Made(DocumentedModel):\n    field: int = 0\n    'Not found.'\n",
        {"DocumentedModel": DocumentedModel, "__name__": "made_by_a_test"},
        made,
    )
    assert described(made["Made"]) == {"field": None}


def test_processes_start_without_reading_sources() -> None:
    code = (
        "import tieline_operator.main, tieline_api.main, linecache\n"
        "print([one for one in linecache.cache if 'tieline_' in one])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert shown.strip() == "[]"
