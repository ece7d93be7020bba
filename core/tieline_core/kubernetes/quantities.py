"""Quantities of Kubernetes: numbers with a suffix, such as 500m or 4Gi."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}
_QUANTITY = re.compile(r"([0-9.]+)([a-zA-Z]*)")
_SHOWN = ("Gi", "Mi", "Ki")


def amount(value: Any) -> Decimal | None:
    """The value of a Kubernetes quantity; None for what is none.

    >>> amount("500m") == amount(0.5)
    True
    """
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in _SUFFIXES:
        return None
    try:
        return Decimal(match[1]) * _SUFFIXES[match[2]]
    except InvalidOperation:
        return None


def bytes_shown(number: int) -> str:
    """A number of bytes as a quantity for people, rounded to two digits after the point.

    >>> bytes_shown(268435456), bytes_shown(1610612736), bytes_shown(100)
    ('256Mi', '1.5Gi', '100')
    """
    for suffix in _SHOWN:
        if number >= _SUFFIXES[suffix]:
            return f"{round(number / int(_SUFFIXES[suffix]), 2):g}{suffix}"
    return str(number)
