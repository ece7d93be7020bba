"""The real browser in which tests open the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ViewportSize, expect, sync_playwright

from tests.harness.console.without_netlink import LAUNCHER, variables
from tests.harness.identity.browser import PROGRAM, PROGRAMS
from tieline_cluster.image_build.debian_packages import install_missing
from tieline_cluster.progress import Progress

SIZE: ViewportSize = {"width": 1360, "height": 860}
PATIENCE_MS = 60_000
"""For what comes within a moment on an idle machine."""
WHOLE_PROGRAM = "/usr/bin/chromium"
"""The browser as people have it, with their settings: those of cookies, say."""
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage"]


def install_chromium() -> None:
    """Installs what is missing of it on this machine."""
    install_missing(PROGRAMS, Progress())


def program_options(program: str = PROGRAM) -> dict[str, Any]:
    """Playwright's options for a browser that does not notice how pods come and go on this machine."""
    return {"executable_path": LAUNCHER, "env": variables(program)}


@contextmanager
def chromium(*options: str, program: str = PROGRAM) -> Iterator[Browser]:
    """Chromium, headless. Expectations wait as long as ``PATIENCE_MS``. ``options`` of its command line."""
    install_chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**program_options(program), args=[*OPTIONS, *options])
        try:
            yield browser
        finally:
            browser.close()


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """A browser of somebody new, with Playwright's ``options``. Its actions wait as long as expectations do."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return context
