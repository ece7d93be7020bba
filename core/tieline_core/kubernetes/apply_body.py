"""Bodies of server-side apply: JSON that a YAML parser reads as exactly the same values.

The API server reads every body of type ``application/apply-patch+yaml`` with a YAML 1.1 parser (sigs.k8s.io/yaml).
JSON is not quite a part of YAML 1.1: line breaks of YAML (U+0085, U+2028, U+2029) inside strings are folded to a
space, its reader refuses some characters that JSON allows (YAML 1.1, section 5.1), and a key without ``?`` has at most
1,024 characters. Escapes are read as they are meant, so these characters are sent escaped and long keys explicitly.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

# In UTF-8: U+007F, U+0080 to U+009F, U+2028, U+2029, U+FEFF, U+FFFE, U+FFFF. JSON has them in strings only.
_NOT_YAML = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
_STRING = re.compile(rb'("(?:[^"\\]|\\.)*+")(:?)')
_LONGEST_KEY = 1000
# The longest form of a character in JSON is six bytes: \u0000.
_PERHAPS_LONG = _LONGEST_KEY // 6


def apply_body(obj: Mapping[str, Any]) -> bytes:
    """``obj`` as a body of server-side apply. The API server stores the values that JSON would have given.

    Raises orjson.JSONEncodeError for what is no JSON, a string with a lone surrogate among it.
    """
    data = orjson.dumps(obj)
    if not data.isascii() or b"\x7f" in data:
        data = _NOT_YAML.sub(_escaped, data)
    if len(data) > _LONGEST_KEY and _has_long_key(obj):
        data = _STRING.sub(_explicit, data)
    return data


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())


def _explicit(found: re.Match[bytes]) -> bytes:
    text, colon = found.groups()
    return b"? " + text + b" :" if colon and len(text) > _LONGEST_KEY else found[0]


def _has_long_key(value: Any) -> bool:
    """Whether a key may be longer than YAML allows without ``?``."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            if any(len(key) > _PERHAPS_LONG for key in item):
                return True
            waiting.extend(child for child in item.values() if isinstance(child, Mapping | list | tuple))
        else:
            waiting.extend(child for child in item if isinstance(child, Mapping | list | tuple))
    return False
