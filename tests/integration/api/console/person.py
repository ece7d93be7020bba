"""Somebody at the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.harness.console.axe import findings_at_twice_the_size, findings_in_both_schemes


@dataclass
class Person:
    """A tab of a browser, on the pages of one organisation."""

    page: Page
    url: str
    namespace: str

    def sign_in(self, token: str, *, heading: str = "Overview") -> None:
        self.page.goto(f"{self.url}/console/")
        self.page.get_by_label("Token or API key").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)

    def open(self, path: str) -> None:
        """A page of the organisation, as from a link that somebody was sent."""
        self.page.goto(f"{self.url}/console/{self.namespace}{path}")

    def sees(self, text: str) -> None:
        expect(self.main.get_by_text(text).first).to_be_visible()

    def sees_no(self, role: Any, name: str) -> None:
        expect(self.page.get_by_role(role, name=name)).to_have_count(0)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    def toggles(self, name: str, *options: str) -> None:
        """Checks options of a filter that takes several, or unchecks them."""
        group = self.main.locator("details", has=self.page.locator("summary", has_text=f"{name}:"))
        group.locator("summary").click()
        for option in options:
            group.get_by_label(option, exact=True).click()
        self.page.keyboard.press("Escape")
        expect(group.get_by_role("checkbox")).to_have_count(0)

    def finds_it_accessible(self, *, zoomed: bool = False) -> None:
        """In both schemes; dialogs, and what is to be ``zoomed``, at twice the size too."""
        found = findings_in_both_schemes(self.page)
        if zoomed or self.page.locator("dialog[open]").count():
            found += findings_at_twice_the_size(self.page)
        assert not found, "\n".join(found)
