"""What axe finds against a page's accessibility."""

from typing import Any

from playwright.sync_api import Page

from tests.harness.console.built import CONSOLE

SERIOUS = ("serious", "critical")


def serious_findings(page: Page) -> list[str]:
    """Rule and place of each serious finding, on the page as it is shown now."""
    return _findings(page, SERIOUS)


def all_findings(page: Page) -> list[str]:
    """The same of findings of any level."""
    return _findings(page, (*SERIOUS, "moderate", "minor"))


def _findings(page: Page, levels: tuple[str, ...]) -> list[str]:
    # By the DevTools protocol: the page's own policy allows no such script.
    page.evaluate((CONSOLE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:200]})"
        for rule in found["violations"]
        if rule["impact"] in levels
        for node in rule["nodes"]
    ]
