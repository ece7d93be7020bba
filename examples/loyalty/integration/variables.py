"""Types of the project's variables. Written by `tieline types`: change the schema instead."""
# ruff: noqa

from __future__ import annotations

from typing import Any, Literal


class Variables(dict[str, Any]):
    pointsPerEuro: float
    """How many points the customer gets for a euro"""

    def __getitem__(self, key: Literal["pointsPerEuro"], /) -> float:  # type: ignore[override]
        value: float = super().__getitem__(key)
        return value
