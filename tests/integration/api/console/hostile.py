"""Texts that somebody would write who wants more from a page than to be read."""

from __future__ import annotations

from tests.harness.console.watching import HOOK

MARKUP = f"\"'><img src=x onerror={HOOK}('image')><script>{HOOK}('script')</script><svg onload={HOOK}('svg')>"
STYLE = (
    f"</style></textarea></title><style>@import 'http://evil.example/x.css';</style><b onclick={HOOK}('b')>"
)
LINK = f"javascript:{HOOK}('link')//http://evil.example/%0a"
BEACON = '<img src="http://evil.example/beacon.png"><link rel=stylesheet href="//evil.example/x.css">'
BIDI = "invoice\u202egpj.exe\u2066\u2067\u202a and \u200b\ufeff back"
ANSI = "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x1b[2J\x07\x08\x08"
TEMPLATE = "{{constructor.constructor('" + HOOK + "()')()}} ${" + HOOK + "()} <%= 7*7 %>"
PATH = "../..//evil.example/%2e%2e%2f?x=1#y;/\\..\\"
PROTOTYPE = "__proto__"
LONG = "W" * 20_000
EVERYTHING = " ".join((MARKUP, STYLE, LINK, BEACON, BIDI, ANSI, TEMPLATE, PATH))


def short(length: int, text: str = MARKUP) -> str:
    """As much of a hostile text as fits."""
    return text[:length]


def printable(text: str) -> str:
    """Without the control characters, where the API takes none."""
    return "".join(each for each in text if each.isprintable())
