"""What a schema of variables may ask of a validator, estimated without running one.

``excess`` says whether the schema is small enough to be used at all. It is an estimate: it may miss a reference that
the validator resolves (nested ``$id``, absolute URIs), so what passes may still exceed any time and memory.
``is_linear`` is no estimate: it accepts only keywords that look at each value once.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

MAX_BYTES = 256 * 1024
"""Bytes of a schema as JSON."""
MAX_DEPTH = 100
"""Objects and arrays inside each other; a nested property takes two."""
MAX_EXPANDED = 100_000
"""JSON values of a schema with each ``$ref`` replaced by what it refers to."""
MAX_OPTIONS = 10_000
"""Entries of all ``enum`` together."""
MAX_PATTERN_LENGTH = 10_000
"""Characters of one regular expression."""
MAX_PATTERN_STEPS = 100_000
"""Characters of one regular expression with its counted repeats written out (``[a-z]{3}`` has three)."""
MAX_ALL_PATTERN_STEPS = 500_000
"""The same, of all regular expressions together."""

# What a compiled expression takes for one position, in units of a plain character: classes of Unicode are long lists
# of ranges, and a class that excludes something has all ranges but a few.
_UNICODE_CLASS = 1_000
_WIDE_CLASS = 10
MAX_LINEAR_PARTS = 32
"""Schemas inside a linear one: compiling takes a multiple of their number."""
_UNBOUNDED = {"*", "+", "?"}

# All that a schema may have whose check looks at each value once. Whatever is not listed here is not linear: references
# and identifiers of every kind, combinations, conditions, patterns, formats.
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ANNOTATIONS = frozenset(
    {
        "$comment",
        "default",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
_NUMBERS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
    }
)


def excess(schema: Mapping[str, Any]) -> str | None:
    """Which limit ``schema`` exceeds and what to do, or None. The schema's size in bytes is the caller's to check."""
    options = steps = 0
    for node, depth in _values(schema):
        if depth > MAX_DEPTH:
            return f"it nests more than {MAX_DEPTH} levels deep; make it flatter"
        if not isinstance(node, dict):
            continue
        allowed = node.get("enum")
        options += len(allowed) if isinstance(allowed, list) else 0
        for pattern in _patterns(node):
            length = pattern_steps(pattern) if len(pattern) <= MAX_PATTERN_LENGTH else MAX_PATTERN_STEPS + 1
            if length > MAX_PATTERN_STEPS:
                return (
                    "a pattern is too large with its repeats written out; shorten it, or lower counts such as {1000} "
                    "(maxLength limits a length at no cost)"
                )
            steps += length
    if options > MAX_OPTIONS:
        return f"its enums have more than {MAX_OPTIONS:,} entries; use a pattern, or check them in code"
    if steps > MAX_ALL_PATTERN_STEPS:
        return "its patterns are too large together; shorten them, or lower their repeat counts"
    if expanded(schema)[0] > MAX_EXPANDED:
        return (
            f"with each $ref replaced by what it refers to it has more than {MAX_EXPANDED:,} values; "
            "refer to a definition from fewer places"
        )
    return None


def is_linear(schema: Mapping[str, Any]) -> bool:
    """Whether checking a value looks at each part of it once, with one part of the schema.

    A list of what is allowed, not an estimate: a keyword that is not in it makes the schema not linear. How much one
    look takes follows the schema's size, which is the caller's to limit.
    """
    dialect = schema.get("$schema", "")
    waiting: list[Any] = [{key: value for key, value in schema.items() if key != "$schema"}]
    parts = 0
    while waiting:
        node = waiting.pop()
        parts += 1
        if parts > MAX_LINEAR_PARTS:
            return False
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            return False
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting += value.values()
            elif keyword in ("additionalProperties", "items"):
                waiting.append(value)
            elif not _is_plain(keyword, value):
                return False
    return isinstance(dialect, str)


def _is_plain(keyword: str, value: Any) -> bool:
    """Whether a keyword compares a value with constants, or only describes it."""
    match keyword:
        case "type":
            return all(
                isinstance(kind, str) and kind in _TYPES
                for kind in (value if isinstance(value, list) else [value])
            )
        case "required" | "enum":
            # Strings are looked up; others would be compared one by one.
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "const":
            return value is None or isinstance(value, bool | int | float | str)
        case _:
            return keyword in _ANNOTATIONS or (
                keyword in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool)
            )


def pattern_steps(pattern: str) -> int:
    """The length of a regular expression with its counted repeats written out.

    >>> pattern_steps("^[a-z]{3}-(ab){2}$"), pattern_steps("(a{10}){10}"), pattern_steps(r"\\p{L}")
    (8, 100, 1000)
    """
    # One size for each group that is open; the innermost last.
    groups, last, at = [0], 0, 0
    while at < len(pattern):
        size, at, kind = _token(pattern, at)
        if kind == "open":
            groups.append(0)
            last = 0
        elif kind == "close" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif kind == "repeat":
            groups[-1] += last * (max(size, 1) - 1)
            last *= max(size, 1)
        else:
            groups[-1] += size
            last = size
        last = min(last, MAX_ALL_PATTERN_STEPS)
    return sum(groups)


def _token(pattern: str, at: int) -> tuple[int, int, str]:
    """Size (of a repeat: its count), where the next token begins, and the kind of the token at ``at``."""
    match pattern[at]:
        case "\\":
            return _escape(pattern, at)
        case "[":
            return _bracket(pattern, at)
        case "(":
            return 0, at + 1, "open"
        case ")":
            return 0, at + 1, "close"
        case "{":
            return _repeat(pattern, at)
        case sign if sign in _UNBOUNDED or sign in "^$|":
            return 0, at + 1, "sign"
        case ".":
            return _WIDE_CLASS, at + 1, "item"
        case sign:
            return (1 if sign.isascii() else _WIDE_CLASS), at + 1, "item"


def _escape(pattern: str, at: int) -> tuple[int, int, str]:
    letter = pattern[at + 1 : at + 2]
    if letter not in ("p", "P"):
        return (_WIDE_CLASS if letter and letter in "DWSsBb" else 1), at + 2, "item"
    end = pattern.find("}", at) if pattern[at + 2 : at + 3] == "{" else at + 2
    return _UNICODE_CLASS, (end if end >= 0 else len(pattern)) + 1, "item"


def _bracket(pattern: str, at: int) -> tuple[int, int, str]:
    """A class of characters; classes inside classes are added up."""
    size, depth, position = 1, 0, at
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            step, position, _ = _escape(pattern, position)
            size += step if step == _UNICODE_CLASS else 0
            size = max(size, step)
            continue
        depth += (sign == "[") - (sign == "]")
        if (sign == "^" and pattern[position - 1] == "[") or not sign.isascii():
            size = max(size, _WIDE_CLASS)
        if sign == ":" and pattern[position - 1] == "[":
            size = max(size, _WIDE_CLASS)
        position += 1
        if depth <= 0:
            break
    return size, position, "item"


def _repeat(pattern: str, at: int) -> tuple[int, int, str]:
    end = pattern.find("}", at)
    counts = pattern[at + 1 : end].split(",") if end >= 0 else []
    if not counts or not all(part.strip().isdecimal() or not part.strip() for part in counts):
        return 1, at + 1, "item"
    # Longer numbers are no counts of anything, and slow to convert.
    numbers = [int(part.strip()[:9]) for part in counts if part.strip()]
    return max(numbers, default=1), end + 1, "repeat"


def expanded(schema: Mapping[str, Any]) -> tuple[int, bool]:
    """JSON values with each reference within the schema replaced by its target, and whether one leads in a circle.

    What is referred to twice is counted twice, and computed once: the time is linear. A circle is counted once, and
    nothing is counted beyond MAX_EXPANDED.
    """
    anchors = _anchors(schema)
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    circular = False
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    while waiting:
        node, done = waiting.pop()
        if id(node) in sizes:
            continue
        parts = list(_parts(node, schema, anchors))
        if done:
            size = 1 + sum(sizes.get(id(part), 0) if isinstance(part, dict | list) else 1 for part in parts)
            sizes[id(node)] = min(size, MAX_EXPANDED + 1)
            entered.discard(id(node))
            continue
        if id(node) in entered:
            circular = True
            continue
        entered.add(id(node))
        waiting.append((node, True))
        for part in parts:
            if isinstance(part, dict | list) and id(part) not in sizes:
                if id(part) in entered:
                    circular = True
                else:
                    waiting.append((part, False))
    return sizes[id(schema)], circular


def _parts(node: Any, root: Mapping[str, Any], anchors: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(node, list):
        yield from node
        return
    yield from node.values()
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        reference = node.get(keyword)
        if isinstance(reference, str) and (target := _target(reference, root, anchors)) is not None:
            yield target


def _target(reference: str, root: Mapping[str, Any], anchors: Mapping[str, Any]) -> Any:
    """What a reference within the schema leads to (RFC 6901, or an anchor's name); None for any other.

    Not all that a validator resolves: see the module's description.
    """
    if reference in anchors:
        return anchors[reference]
    base, _, fragment = reference.partition("#")
    found: Any = anchors.get(base) if base else root
    if found is None:
        return None
    if fragment and not fragment.startswith("/"):
        return anchors.get(f"#{fragment}")
    for part in unquote(fragment).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(key[:9])] if key.isdecimal() and int(key[:9]) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict | list) else None


def _anchors(schema: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node, _ in _values(schema):
        if not isinstance(node, dict):
            continue
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(keyword), str):
                found[f"#{name}"] = node
        for keyword in ("$id", "id"):
            if isinstance(name := node.get(keyword), str):
                found[name.removesuffix("#")] = node
    return found


def _values(root: Any) -> Iterator[tuple[Any, int]]:
    """All objects and arrays with their depth. Ends below MAX_DEPTH, having reported what lies there."""
    waiting: list[tuple[Any, int]] = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if depth > MAX_DEPTH:
            return
        parts = node.values() if isinstance(node, dict) else node
        waiting += [(part, depth + 1) for part in parts if isinstance(part, dict | list)]


def _patterns(node: Mapping[str, Any]) -> Iterator[str]:
    pattern = node.get("pattern")
    if isinstance(pattern, str):
        yield pattern
    by_pattern = node.get("patternProperties")
    if isinstance(by_pattern, dict):
        yield from by_pattern
