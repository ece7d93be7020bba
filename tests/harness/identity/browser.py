"""A person at a browser: headless Chromium, driven through its DevTools protocol over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness.console.without_netlink import LAUNCHER, variables
from tests.harness.session.waiting import PATIENCE, eventually_async
from tieline_cluster.image_build.debian_packages import install_missing
from tieline_cluster.progress import Progress

PROGRAM = "/usr/bin/chromium-headless-shell"
"""Without windows and pages of its own: it takes a third of the processor time of the whole browser."""
PROGRAMS = {
    "chromium": "chromium",
    "chromium-headless-shell": "chromium-headless-shell",
    "setpriv": "util-linux",
}

_OPTIONS = (
    "--no-sandbox",  # Chromium refuses to sandbox as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=900,700",
    "--remote-debugging-port=0",
)

READY = "document.readyState === 'complete'"
# Where an element is once it has come to rest, which tells from then on whether a click has arrived.
_SPOT = """async (found) => {
    if (document.readyState !== 'complete' || !found) return null;
    const place = () => { const box = found.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; };
    found.scrollIntoView();
    const [x, y, width, height] = place();
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (!width || place().join() !== [x, y, width, height].join()) return null;
    window.clickArrives = false;
    found.addEventListener('click', () => { window.clickArrives = true; }, {once: true, capture: true});
    return {x: x + width / 2, y: y + height / 2};
}"""


class Page:
    """A tab or a popup."""

    def __init__(self, browser: Browser, *, target: str, session: str) -> None:
        self._browser = browser
        self.target = target
        self._session = session

    async def call(self, method: str, **params: Any) -> Any:
        """A command of the protocol."""
        return await self._browser.call(method, session=self._session, **params)

    async def goto(self, url: str) -> None:
        """As if typed into the address bar."""
        found = await self.call("Page.navigate", url=url)
        assert "errorText" not in found, f"{url}: {found['errorText']}"

    async def evaluate(self, expression: str) -> Any:
        """What a JavaScript expression comes to, promises awaited."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def url(self) -> str:
        return str(await self.evaluate("location.href"))

    async def text(self) -> str:
        """What the page says to its reader."""
        return str(await self.evaluate("document.body ? document.body.innerText : ''"))

    async def until(self, expression: str) -> Any:
        """The first true value of a JavaScript expression, over page loads too."""
        return await eventually_async(expression, lambda: self.evaluate(expression), seen=self._whereabouts)

    async def fill(self, selector: str, text: str) -> None:
        """Types into a field, in place of what it had."""
        field = f"document.querySelector({json.dumps(selector)})"

        async def typed() -> bool:
            await self.evaluate(f"{field}.value = '', {field}.focus()")
            await self.call("Input.insertText", text=text)
            return bool(await self.evaluate(f"{field}.value === {json.dumps(text)}"))

        await self.until(f"{READY} && !!{field}")
        await eventually_async(f"{selector} filled", typed, seen=self._whereabouts)

    async def click(self, selector: str) -> None:
        """A real click at the middle of an element: what opens a popup needs one.

        Clicked again where the click did not arrive: browsers drop input before a page's first paint, and an
        element may move while a page loads.
        """
        find = f"document.querySelector({json.dumps(selector)})"

        async def clicked() -> bool:
            spot = await self.until(f"({_SPOT})({find})")
            # The answers to a click that closes the page never come; its document may be another one by then.
            with contextlib.suppress(TimeoutError, GoneError):
                for kind in ("mousePressed", "mouseReleased"):
                    await asyncio.wait_for(
                        self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **spot),
                        5,
                    )
                async with asyncio.timeout(5):
                    missed: bool = await self.evaluate("window.clickArrives === false")
                    return not missed
            return True

        await eventually_async(f"{selector} clicked", clicked, seen=self._whereabouts)

    async def screenshot(self) -> bytes:
        """What its reader sees, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    async def close(self) -> None:
        await self._browser.call("Target.closeTarget", targetId=self.target)

    async def _whereabouts(self) -> str:
        with contextlib.suppress(GoneError, AssertionError):
            return f"{await self.url()}: {await self.text()}"
        return "the page is gone"


class GoneError(LookupError):
    """The page of a command is not there any more, or its document has just changed."""


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, *, session: str | None = None, **params: Any) -> Any:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message if session is None else {**message, "sessionId": session})
        try:
            async with asyncio.timeout(PATIENCE):
                return await answer
        finally:
            self._waiting.pop(number, None)

    async def open(self, url: str) -> Page:
        """A new tab."""
        made = await self.call("Target.createTarget", url="about:blank")
        page = await self.attach(made["targetId"])
        await page.goto(url)
        return page

    async def popup(self, opener: Page) -> Page:
        """The window that a page has opened, once it has."""

        async def find() -> str | None:
            found = (await self.call("Target.getTargets"))["targetInfos"]
            return next((one["targetId"] for one in found if one.get("openerId") == opener.target), None)

        return await self.attach(await eventually_async("a popup", find))

    async def is_open(self, page: Page) -> bool:
        found = (await self.call("Target.getTargets"))["targetInfos"]
        return any(one["targetId"] == page.target for one in found)

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait([self._reader])
        await self._socket.close()

    async def attach(self, target: str) -> Page:
        """A window that is open, by the id of its target."""
        found = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        return Page(self, target=target, session=found["sessionId"])

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            answer = self._waiting.get(found.get("id", 0))
            if answer is None or answer.done():
                continue
            if "error" in found:
                answer.set_exception(GoneError(found["error"]["message"]))
            else:
                answer.set_result(found["result"])


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser, ended with the test (and with this process, however that ends)."""
    await asyncio.to_thread(install_missing, PROGRAMS, Progress())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        process = _started(profile)
        try:
            port, path = await eventually_async(
                "Chromium's port",
                lambda: asyncio.to_thread(_port, profile / "DevToolsActivePort"),
                seen=lambda: asyncio.to_thread(lambda: _log(profile).read_text(errors="replace")[-2000:]),
            )
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket,
            ):
                browser = Browser(socket)
                yield browser
                await browser.close()
        finally:
            process.kill()
            process.wait(timeout=30)


def _started(profile: Path) -> subprocess.Popen[bytes]:
    with _log(profile).open("wb") as output:
        return subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", LAUNCHER),
                *_OPTIONS,
                f"--user-data-dir={profile}",
            ],
            env=variables(PROGRAM),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _log(profile: Path) -> Path:
    return profile / "log"


def _port(file: Path) -> tuple[str, str] | None:
    lines = file.read_text().split() if file.exists() else []
    return (lines[0], lines[1]) if len(lines) == 2 else None
