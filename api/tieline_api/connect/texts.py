"""The English texts of the connect page, read from its script to validate the texts of a brand."""

import difflib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_ENGLISH = re.compile(r"^  en: \{$(.*?)^  \},$", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r'^    "?([\w.-]+)"?:\s*("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")


@cache
def english_texts() -> Mapping[str, str]:
    """The English texts by their keys."""
    script = (files("tieline_api.connect") / "files" / "texts.js").read_text()
    found = _ENGLISH.search(script)
    if found is None:
        raise LookupError("texts.js has no block of English texts")
    return {key: json.loads(text) for key, text in _TEXT.findall(found[1])}


def problem_with(key: str, text: str) -> str:
    """The problem with a text of a brand; empty for a valid one."""
    english = english_texts().get(key)
    if english is None:
        [like] = difflib.get_close_matches(key, english_texts(), 1) or [""]
        return f'unknown text "{key}"' + (f': did you mean "{like}"?' if like else "")
    unknown = {*_PLACE.findall(text)} - {*_PLACE.findall(english)}
    if unknown:
        return f"{{{sorted(unknown)[0]}}} is not a placeholder of this text; the English text is: {english}"
    return ""
