"""Names that people read: without characters that cannot be seen, and that make a name look like another one."""

import re
from typing import Any

# Control characters (C0, DEL, C1), separators of lines and paragraphs, marks of text direction (UAX #9), and the byte
# order mark. The joiners U+200C and U+200D are needed to write Persian, and by emoji.
_RANGES = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0x61C, 0x61C),
    (0x200E, 0x200F),
    (0x2028, 0x202E),
    (0x2066, 0x2069),
    (0xFEFF, 0xFEFF),
)
ECMA_PATTERN = "^[^" + "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in _RANGES) + "]*$"
"""As JSON Schema has regular expressions, and Python."""
_GO_PATTERN = "^[^" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in _RANGES) + "]*$"
READABLE: dict[str, Any] = {"pattern": _GO_PATTERN}
"""For the schema of a field in a CRD alone (Kubernetes has Go's expressions): objects from before are still read."""
_FOUND = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]")


def unreadable(text: str) -> str | None:
    """What is wrong with a name, as a sentence; None when nothing is."""
    found = _FOUND.search(text)
    if found is None:
        return None
    return (
        f"must not contain control characters or marks of text direction: remove U+{ord(found[0]):04X} "
        f"at position {found.start() + 1}"
    )


def cleaned(text: str) -> str:
    """A name from elsewhere, with a space in place of each such character."""
    return _FOUND.sub(" ", text).strip()


def cleaned_lines(text: str) -> list[str]:
    """The lines of a text, with a space in place of each such character; indents stay.

    >>> cleaned_lines("a\\n  b\\x1b[31m\\r\\nc")
    ['a', '  b [31m', 'c']
    """
    return [_FOUND.sub(" ", line).rstrip() for line in text.split("\n")]
