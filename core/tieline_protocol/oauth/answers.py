"""Answers of providers and their APIs, and conditions for them. Any shape is read, none is trusted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qsl

from tieline_protocol.answer_paths import value_at

_MOST_FIELDS = 200


def parsed(answer: bytes) -> Any:
    """A JSON document, or the fields of a form; None for anything else.

    >>> parsed(b'{"ok": true}'), parsed(b"access_token=at&scope=a"), parsed(b"<html>")
    ({'ok': True}, {'access_token': 'at', 'scope': 'a'}, None)
    """
    try:
        text = answer.decode("utf-8-sig")
    except ValueError:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return dict(parse_qsl(text, max_num_fields=_MOST_FIELDS)) or None
    except ValueError:
        return None


def text_of(value: Any) -> str:
    """A value as conditions and connections have it: ``true`` for True, numbers in digits, "" for other things.

    >>> text_of(True), text_of(12), text_of("a"), text_of({"odd": 1}), text_of(None)
    ('true', '12', 'a', '', '')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < 10**30:
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition for an answer; see AnswerCondition in ``tieline_core.resources.oauth2_dialect``."""

    status: int | None = None
    path: str = ""
    values: tuple[str, ...] | None = None
    """Texts, one of which is there; None: any value."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The condition that a scheme describes."""
        values = given.get("in")
        if given.get("equals") is not None:
            values = [given["equals"]]
        return cls(
            status=given.get("status"),
            path=str(given.get("path") or ""),
            values=None if values is None else tuple(map(str, values)),
        )

    def holds(self, status: int, document: Any) -> bool:
        """Whether an answer of this status and body meets it."""
        if self.status is not None and status != self.status:
            return False
        if not self.path:
            return self.status is not None
        found = value_at(document, self.path)
        if self.values is None:
            return found is not None and found != ""
        return text_of(found) in self.values


def conditions(given: Any) -> tuple[Condition, ...]:
    """The conditions in a list of a scheme."""
    return tuple(Condition.of(one) for one in given or () if isinstance(one, Mapping))
