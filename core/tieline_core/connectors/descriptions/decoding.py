"""From bytes to plain data: JSON first, then YAML, with every key a string.

Nothing in here trusts its input: encodings are strict, aliases and nesting are limited, duplicate keys are
reported. It still runs in a limited child process (``child``), because a parser may be wrong about itself.
"""

import codecs
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import orjson
import yaml_rs

from tieline_core.connectors.descriptions.findings import ImportFindings, UnreadableDescription, cut

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
_MERGE = "<<"
_DOCUMENT_START = re.compile(rb"^---(?=\s)", re.MULTILINE)
# Reading an integer costs the square of its digits: 2 ms for this many, 17 s for four million.
_DIGITS = 16 * 1024
_UNQUOTED_DIGITS = re.compile(r"""(?<!["'\w])[0-9_]+""")


def read(data: bytes, findings: ImportFindings) -> tuple[dict[str, Any], bytes]:
    """The description as plain data, and as compact JSON; raises UnreadableDescription."""
    if not data or data.isspace():
        raise UnreadableDescription("The file is empty: upload an OpenAPI description")
    text = _decoded(data, findings)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:
            raise UnreadableDescription(
                "The file is nested deeper than 1,024 levels: it is no description"
            ) from None
        # Read again from JSON: its reader keeps each key once, the YAML reader each time that it stands there,
        # which takes twice the memory.
        written = _written(_from_yaml(_text(text), findings, json_error=error))
        value = orjson.loads(written)
    else:
        written = _written(value)
        _tell_duplicates(text, written, findings)
    if not isinstance(value, dict):
        documents = len(_DOCUMENT_START.findall(text)) + (not text.startswith(b"---"))
        if isinstance(value, list) and documents > 1:
            raise UnreadableDescription(
                f"The file holds {documents} YAML documents (separated by ---): upload the one that begins with "
                "openapi: 3.…"
            )
        raise UnreadableDescription(
            "The file holds no object at its top: an OpenAPI description begins with openapi: 3.…"
        )
    return value, written


def _decoded(data: bytes, findings: ImportFindings) -> bytes:
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
        raise UnreadableDescription(
            f"The file is not {encoding.removesuffix('-sig').upper()} (byte {error.start}): save it as UTF-8"
        ) from None
    if not encoding.startswith("utf-8"):
        findings.info(f"The file is {encoding.upper()}; UTF-8 is what descriptions should be in")
    if "\0" in text:
        raise UnreadableDescription(
            "The file holds NUL characters: it is no text, or it is UTF-16 without a mark"
        )
    return text.encode().strip()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableDescription(f"The file is not UTF-8 (byte {error.start}): save it as UTF-8") from None


def _from_yaml(text: str, findings: ImportFindings, *, json_error: orjson.JSONDecodeError) -> Any:
    if _has_huge_number(text):
        raise UnreadableDescription(
            f"The file holds a number of more than {_DIGITS} digits: it is no description; "
            "put a value of that kind in quotes"
        )

    def refused(error: Exception) -> UnreadableDescription:
        reason = _yaml_reason(error)
        if reason.endswith("recursion limit exceeded"):
            return UnreadableDescription("The file is nested deeper than 255 levels: it is no description")
        if text.startswith(("{", "[")):
            no_json = f"{json_error.msg} (line {json_error.lineno}, column {json_error.colno})"
            return UnreadableDescription(f"The file is no JSON: {no_json}; and no YAML: {reason}")
        return UnreadableDescription(f"The file is no YAML: {reason}")

    try:
        value = _yaml(text, yaml_rs.DuplicateKeyPolicy.Error)
    except yaml_rs.YAMLDecodeError as error:
        if "duplicate" not in str(error):
            raise refused(error) from None
        findings.warning(f"A key is there twice, the last one counts: {_yaml_reason(error)}")
        try:
            value = _yaml(text, yaml_rs.DuplicateKeyPolicy.LastWins)
        except yaml_rs.YAMLDecodeError as second:
            raise refused(second) from None
    return _plain(value, findings)


def _yaml(text: str, duplicates: yaml_rs.DuplicateKeyPolicy) -> Any:
    return yaml_rs.loads(text, parse_datetime=False, alias_limits=_ALIASES, duplicate_key_policy=duplicates)


def _has_huge_number(text: str) -> bool:
    """Whether more than _DIGITS digits stand in a row; numbers of less than twice as many may pass."""
    return any(
        text[start : start + _DIGITS].replace("_", "").isdecimal() for start in range(0, len(text), _DIGITS)
    ) and any(len(digits) > _DIGITS for digits in _UNQUOTED_DIGITS.findall(text))


def _yaml_reason(error: Exception) -> str:
    """Where and why; between the two stands an excerpt of the text that a message has no room for."""
    first, *rest = str(error).splitlines()
    if first.startswith("alias "):
        return "its aliases repeat too much; write the parts once and refer to them by $ref"
    location = first.removeprefix("YAML parse error at ")
    return cut(f"{location}: {rest[-1]}" if rest else location, 200)


def _plain(value: Any, findings: ImportFindings) -> Any:
    """YAML's data as JSON has it, changed in place. The parser limits the depth, so recursion is safe."""
    if isinstance(value, dict):
        if _MERGE in value or not all(type(key) is str for key in value):
            value = _merged({_key(key): item for key, item in value.items()}, findings)
        for key, item in value.items():
            if type(item) is not str:
                value[key] = _plain(item, findings)
        return value
    if isinstance(value, list):
        value[:] = [_plain(item, findings) for item in value]
        return value
    if isinstance(value, tuple | set | frozenset):
        return [_plain(item, findings) for item in value]
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else _number(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _merged(value: dict[str, Any], findings: ImportFindings) -> dict[str, Any]:
    """The mapping with what its merge key brings (YAML 1.1, https://yaml.org/type/merge.html).

    Own keys count before merged ones, and earlier mappings of a list before later ones.
    """
    if _MERGE not in value:
        return value
    merged = value[_MERGE]
    sources = merged if isinstance(merged, list) else [merged]
    if not all(isinstance(source, dict) for source in sources):
        findings.warning('The merge key "<<" holds something else than mappings and was left as it is')
        return value
    own = {key: item for key, item in value.items() if key != _MERGE}
    result: dict[str, Any] = {}
    for source in reversed(sources):
        keyed = {_key(key): item for key, item in source.items()}
        result |= _merged(keyed, findings)
    return result | own


def _number(value: int) -> Any:
    """An integer beyond 64 bits, as JSON readers take it: a floating point number."""
    try:
        return float(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"


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
        raise UnreadableDescription(
            "The file is nested deeper than 250 levels, or holds characters that are none: it is no description"
        ) from None


def _tell_duplicates(text: bytes, written: bytes, findings: ImportFindings) -> None:
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
