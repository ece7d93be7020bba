"""From bytes to plain data: JSON first, then YAML, with every key a string.

Nothing in here trusts its input: encodings are strict, aliases and nesting are limited, duplicate keys are
told. It still runs in a limited child process (``child``), because a parser may be wrong about itself.
"""

import codecs
import json
import math
from collections.abc import Iterable
from typing import Any

import orjson
import yaml_rs

from tieline_core.connectors.findings import Findings, Unreadable, cut

# Descriptions that share parts by anchors replay hundreds of events; a bomb replays millions.
_ALIASES = yaml_rs.AliasLimits(max_total_replayed_events=10_000, max_replay_stack_depth=16)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LARGEST = 2**63
_SHOWN = 5


def read(data: bytes, findings: Findings) -> tuple[dict[str, Any], bytes]:
    """The description as plain data, and as compact JSON; raises Unreadable."""
    if not data or data.isspace():
        raise Unreadable("The file is empty: upload an OpenAPI description")
    text = _decoded(data, findings)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text[:1] == b"{" and "recursion limit" in str(error).lower():
            raise Unreadable("The file is nested deeper than 1,024 levels: it is no description") from None
        value = _from_yaml(_text(text), findings, json_error=error)
        written = _written(value)
    else:
        written = _written(value)
        _tell_duplicates(text, written, findings)
    if not isinstance(value, dict):
        raise Unreadable(
            "The file holds no object at its top: an OpenAPI description begins with openapi: 3.…"
        )
    return value, written


def _decoded(data: bytes, findings: Findings) -> bytes:
    """The text as UTF-8, without a byte order mark and without NULs."""
    if (
        b"\0" not in data[:1024]
        and not data.startswith(tuple(mark for mark, _ in _MARKS))
        and b"\0" not in data
    ):
        # The usual case makes no copies, and the JSON parser checks the encoding as it reads.
        return data
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The file is not {encoding.removesuffix('-sig').upper()} (byte {error.start}): save it as UTF-8"
        ) from None
    if not encoding.startswith("utf-8"):
        findings.info(f"The file is {encoding.upper()}; UTF-8 is what descriptions should be in")
    if "\0" in text:
        raise Unreadable("The file holds NUL characters: it is no text, or it is UTF-16 without a mark")
    return text.encode().strip()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"The file is not UTF-8 (byte {error.start}): save it as UTF-8") from None


def _from_yaml(text: str, findings: Findings, *, json_error: orjson.JSONDecodeError) -> Any:
    refused = f"The file is no YAML: {{}}; and no JSON: {json_error.msg} (line {json_error.lineno})"
    try:
        value = _yaml(text, yaml_rs.DuplicateKeyPolicy.Error)
    except yaml_rs.YAMLDecodeError as error:
        if "duplicate" not in str(error):
            raise Unreadable(refused.format(_first_line(error))) from None
        findings.warning(f"A key is there twice, the last one counts: {_first_line(error)}")
        try:
            value = _yaml(text, yaml_rs.DuplicateKeyPolicy.LastWins)
        except yaml_rs.YAMLDecodeError as second:
            raise Unreadable(refused.format(_first_line(second))) from None
    return _plain(value)


def _yaml(text: str, duplicates: yaml_rs.DuplicateKeyPolicy) -> Any:
    return yaml_rs.loads(text, parse_datetime=False, alias_limits=_ALIASES, duplicate_key_policy=duplicates)


def _first_line(error: Exception) -> str:
    return cut(str(error).splitlines()[0], 200)


def _plain(value: Any) -> Any:
    """YAML's data as JSON has it. The parser limits the depth, so recursion is safe."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else _number(str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _number(text: str) -> Any:
    """An integer beyond 64 bits, as JSON readers take it: a floating point number."""
    number = float(text[:400])
    return number if math.isfinite(number) else text[:400]


def _key(key: Any) -> str:
    """``200`` and ``true`` are keys of a description too."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return str(key).lower()
    return str(key)


def _written(value: Any) -> bytes:
    """The value as JSON. What cannot be written (too deep, half characters) could not be answered either."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise Unreadable(
            "The file is nested deeper than 250 levels, or holds characters that are none: it is no description"
        ) from None


def _tell_duplicates(text: bytes, written: bytes, findings: Findings) -> None:
    """JSON's parser keeps the last of two keys silently.

    Counting colons after quotes in what was read and in what came of it costs milliseconds; only where
    they differ (also because of white space or escapes) the slow parser looks.
    """
    if text.count(b'":') == written.count(b'":'):
        return
    twice: list[str] = []

    def pairs(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in items:
            if key in result:
                twice.append(key)
            result[key] = item
        return result

    try:
        json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return
    if twice:
        names = ", ".join(cut(name, 60) for name in list(dict.fromkeys(twice))[:_SHOWN])
        findings.warning(f"{len(twice)} keys are there twice in one object, the last one counts: {names}")
