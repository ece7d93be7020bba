"""Regular expressions of users. They run in linear time, without back-references or look-around."""

from functools import lru_cache
from typing import Any

_COMPILED_BYTES = 256 * 1024


def matches(pattern: str, value: str) -> bool:
    r"""Whether a whole value matches a pattern; False for a pattern that cannot be used.

    >>> matches("[a-z]+", "shop"), matches("^[a-z]+$", "shop!"), matches("(", "a")
    (True, False, False)
    >>> matches(r"[a-z]+\$", "shop$"), matches(r"[a-z]+\$", "shop")
    (True, False)
    """
    checks = _matcher(pattern)
    return checks is not None and bool(checks.is_valid(value))


def is_usable(pattern: str) -> bool:
    """Whether a pattern can be used: valid, without look-around and back-references, and with small counts.

    >>> is_usable("a|b"), is_usable("(?=a)"), is_usable("a)|(b")
    (True, False, False)
    """
    return _matcher(pattern) is not None


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Any:
    # Alone, too: "a)|(b" is valid in parentheses only, where it matches parts of values.
    return _compiled(f"^(?:{pattern})$") if _compiled(pattern) is not None else None


def _compiled(pattern: str) -> Any:
    import jsonschema_rs  # noqa: PLC0415  (pods without such patterns need not load it)

    try:
        return jsonschema_rs.validator_for(
            {"type": "string", "pattern": pattern},
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_COMPILED_BYTES),
        )
    except (jsonschema_rs.ValidationError, ValueError):
        return None
