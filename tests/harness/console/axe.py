"""What axe finds against a page's accessibility."""

from typing import Any

from playwright.sync_api import Page

from tests.harness.console.built import CONSOLE
from tests.harness.console.chromium import SIZE

COLOURS = ("color-contrast", "link-in-text-block")
"""The rules that depend on the colour scheme."""


def findings(page: Page, rules: tuple[str, ...] = ()) -> list[str]:
    """Rule and place of each finding of any level, on the page as it is shown now; by some ``rules`` alone."""
    # By the DevTools protocol: the page's own policy allows no such script.
    page.evaluate((CONSOLE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found: dict[str, Any] = page.evaluate("options => axe.run(options)", options)
    return [
        f"{rule['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:200]})"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def findings_in_both_schemes(page: Page) -> list[str]:
    """The same in the light and in the dark scheme; it stays light."""
    found: list[str] = []
    for scheme, rules in (("dark", COLOURS), ("light", ())):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += [f"{scheme}: {one}" for one in findings(page, rules)]
    return found


def findings_at_twice_the_size(page: Page) -> list[str]:
    """What axe finds at 200 % zoom in the dark scheme, and whether the page is too wide then."""
    size = page.viewport_size or SIZE
    # A browser at 200 % shows a page of half the size.
    page.set_viewport_size({"width": size["width"] // 2, "height": size["height"] // 2})
    page.emulate_media(color_scheme="dark")
    wide = int(page.evaluate(_WIDE))
    found = [f"at 200 % it is {wide} pixels too wide"] if wide > 0 else []
    found += [f"at 200 %, dark: {one}" for one in findings(page)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(size)
    return found


_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
