"""The page in a product on another origin, and pages that must not have it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, expect

from tests.harness.console.axe import findings
from tests.harness.console.chromium import open_context
from tests.integration.api.connect.conftest import Scene
from tests.integration.api.connect.product import built_example, page_with, product

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def example() -> Path:
    return built_example()


@pytest.fixture
def embedded(scene: Scene, example: Path) -> Iterator[str]:
    """The example's URL."""
    origins: list[str] = []

    def begin() -> dict[str, str]:
        made = scene.begin(templates=(scene.login["connectionTemplateId"],), allowedOrigins=origins)
        return {"token": made["token"], "page": f"{scene.admin.url}/connect"}

    with product(example, begin) as url:
        origins.append(url)
        yield url


def test_a_user_connects_in_a_frame_of_the_product_without_cookies_of_third_parties(
    scene: Scene, embedded: str, page: Page
) -> None:
    page.goto(embedded)
    page.get_by_role("button", name="Connect accounts").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Connect The Shop").click()
    assert page.frames[-1].evaluate("document.hasStorageAccess()") is False
    with page.expect_popup() as opened:
        frame.get_by_role("button", name="Continue to The Shop").click()
    with opened.value.expect_event("close"):
        opened.value.get_by_role("link", name="Allow").click()
    expect(frame.get_by_text("Connected", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Events")).to_contain_text("connected")
    frame.get_by_label("Region").select_option("us")
    frame.get_by_role("button", name="Done").click()
    expect(page.get_by_role("status")).to_have_text("done")
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_role("list", name="Events")).to_contain_text("activated")


def test_a_user_connects_in_a_window_of_the_product(scene: Scene, embedded: str, page: Page) -> None:
    page.goto(f"{embedded}/?mode=popup&lang=de")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Connect accounts").click()
    window = opened.value
    expect(window.get_by_role("heading", level=1)).to_have_text("Ihre Werkzeuge")
    window.get_by_role("button", name="The Shop verbinden").click()
    with window.expect_popup() as login:
        window.get_by_role("button", name="Weiter zu The Shop").click()
    login.value.get_by_role("link", name="Allow").click()
    expect(window.get_by_text("Verbunden", exact=True)).to_be_visible()
    window.get_by_label("Region").select_option("us")
    with window.expect_event("close"):
        window.get_by_role("button", name="Fertig").click()
    expect(page.get_by_role("status")).to_have_text("done")
    assert scene.connections(scene.last_user)[0]["credentials"][0]["credential"]["type"] == "oauth2-token"


def test_the_dialog_closes_by_its_button_by_escape_and_by_a_click_beside_it(
    embedded: str, page: Page
) -> None:
    page.goto(embedded)

    def opened() -> FrameLocator:
        page.get_by_role("button", name="Connect accounts").click()
        frame = page.frame_locator("iframe")
        expect(frame.get_by_role("button", name="Connect The Shop")).to_be_visible()
        return frame

    def is_closed() -> None:
        expect(page.locator("iframe")).to_have_count(0)
        expect(page.get_by_role("status")).to_have_text("closed")

    opened()
    assert findings(page) == []
    page.get_by_role("button", name="Close").click()
    is_closed()
    opened()
    page.mouse.click(3, 3)
    is_closed()
    opened()
    page.keyboard.press("Escape")
    is_closed()
    frame = opened()
    frame.get_by_role("button", name="Connect The Shop").click()
    frame.get_by_role("button", name="Continue to The Shop").press("Escape")
    expect(frame.get_by_role("button", name="Connect The Shop")).to_be_visible()
    frame.get_by_role("button", name="Connect The Shop").focus()
    page.keyboard.press("Escape")  # by the page: the frame may be gone before its key is up
    is_closed()


@pytest.mark.parametrize("mode", ["frame", "popup"])
def test_an_origin_that_is_not_allowed_is_told_what_to_do(
    scene: Scene, example: Path, browser: Browser, mode: str
) -> None:
    def begin() -> dict[str, str]:
        made = scene.begin(allowedOrigins=["https://app.example"])
        return {"token": made["token"], "page": f"{scene.admin.url}/connect"}

    with product(example, begin) as url:
        page = open_context(browser).new_page()
        page.goto(f"{url}/?mode={mode}")
        with page.expect_console_message(lambda message: f"add {url} to allowedOrigins" in message.text):
            page.get_by_role("button", name="Connect accounts").click()
        expect(page.get_by_role("status")).to_have_text("failed")
        page.close()


def test_no_other_origin_shows_the_page_in_a_frame(scene: Scene, browser: Browser) -> None:
    made = scene.begin(allowedOrigins=["https://app.example"])
    with page_with(f'<iframe src="{made["url"]}"></iframe>') as evil:
        page = open_context(browser).new_page()
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
            page.goto(evil)
        (frame,) = page.main_frame.child_frames
        assert not frame.url.startswith("http")
        page.close()


def test_a_window_of_another_origin_hears_nothing_and_begins_nothing(
    scene: Scene, context: BrowserContext
) -> None:
    made = scene.begin(allowedOrigins=["https://app.example"])
    with page_with("<p>Evil</p>") as evil:
        page = context.new_page()
        started: list[str] = []
        context.on(
            "request", lambda request: started.append(request.url) if "/oauth2/start" in request.url else None
        )
        page.goto(evil)
        with page.expect_popup() as opened:
            page.evaluate(
                """(url) => {
                    window.heard = [];
                    addEventListener("message", ({ data }) => window.heard.push(data));
                    window.theirs = open(url, "_blank");
                    setInterval(() => window.theirs.postMessage({source: "tieline-connect", type: "hello"}, "*"), 50);
                }""",
                made["url"],
            )
        expect(opened.value.get_by_text("Ann")).to_be_visible()
        opened.value.get_by_role("button", name="Connect The Shop").first.click()
        heard = page.evaluate("window.heard.map(({type, ...more}) => [type, Object.keys(more).join()])")
        assert {tuple(one) for one in heard} <= {("arrived", "source"), ("refused", "source")}
        with page.expect_popup() as other:
            page.evaluate(
                """(url) => {
                    window.theirs = open(url, "_blank");
                    const sent = {type: "authorise", token: "t", state: "s"};
                    setInterval(() => window.theirs.postMessage(sent, "*"), 50);
                }""",
                f"{scene.admin.url}/connect/authorise",
            )
        other.value.wait_for_load_state()
        other.value.evaluate("new Promise((done) => addEventListener('message', () => setTimeout(done)))")
        assert started == []


def test_the_token_is_in_no_url_referrer_or_log(
    scene: Scene, page: Page, context: BrowserContext, caplog: pytest.LogCaptureFixture
) -> None:
    made = scene.begin(templates=(scene.login["connectionTemplateId"],))
    sent: list[str] = []
    context.on("request", lambda one: sent.append(one.url.partition("#")[0] + one.headers.get("referer", "")))
    with caplog.at_level(logging.DEBUG):
        page.goto(made["url"])
        page.get_by_role("button", name="Connect The Shop").click()
        page.get_by_role("button", name="Continue in this window").click()
        page.get_by_role("link", name="Allow").click()
        expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    secret = made["token"][-43:]
    assert len(sent) > 10
    assert not [one for one in sent if secret in one]
    assert secret not in str(scene.provider.seen)
    assert secret not in "".join(str(record.__dict__) for record in caplog.records)
