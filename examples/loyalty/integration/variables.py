"""Types of the project's variables. Written by `tieline types`: change the schema instead."""

from __future__ import annotations

from typing import TypedDict


class Variables(TypedDict):
    pointsPerEuro: float
    """How many points the customer gets for a euro"""
