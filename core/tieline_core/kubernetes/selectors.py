"""Selectors, evaluated on this side: whether an object belongs to what a list or watch selects.

Needed for what one has written oneself, which no watch has filtered.
"""

import re
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

# key | !key | key=value | key==value | key!=value | key in (a,b) | key notin (a,b)
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUALITY = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<operator>!=|==|=)\s*(?P<value>[^\s=]*)$")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


class Selectors(TypedDict, total=False):
    """The selectors of a list or watch; None selects everything."""

    label_selector: str | None
    field_selector: str | None


def selects(obj: Mapping[str, Any], **selectors: Unpack[Selectors]) -> bool:
    """Whether ``obj`` matches a label selector and a field selector.

    A field that the object does not have counts as empty, as it does for the API server.
    """
    found = obj["metadata"].get("labels") or {}
    by_labels = all(_requirement(part, found) for part in _parts(selectors.get("label_selector")))
    return by_labels and all(_field(part, obj) for part in _parts(selectors.get("field_selector")))


def _parts(selector: str | None) -> list[str]:
    return [part.strip() for part in _OUTSIDE_PARENTHESES.split(selector or "") if part.strip()]


def _requirement(text: str, labels: Mapping[str, str]) -> bool:
    if match := _SET.match(text):
        values = {value.strip() for value in match["values"].split(",")}
        return (labels.get(match["key"]) in values) == (match["operator"] == "in")
    if match := _EQUALITY.match(text):
        return (labels.get(match["key"]) == match["value"]) == (match["operator"] != "!=")
    if text.startswith("!"):
        return text[1:].strip() not in labels
    return text in labels


def _field(text: str, obj: Mapping[str, Any]) -> bool:
    match = _EQUALITY.match(text)
    if match is None:
        return True
    value: Any = obj
    for name in match["key"].split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return (_text(value) == match["value"]) == (match["operator"] != "!=")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
