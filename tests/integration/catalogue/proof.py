"""What is shown of each entry, as an end user and a product see it."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect
from playwright.async_api import Error as PlaywrightError

from tests.harness.console.chromium import OPTIONS, program_options
from tests.harness.session.waiting import PATIENCE, eventually_async
from tests.integration.api.conftest import Answer, Client
from tests.integration.catalogue.emulated_internet import EmulatedInternet
from tests.integration.catalogue.objects import Installed
from tieline.emulator.callbacks import Forgery
from tieline.emulator.connection import EMULATED
from tieline.emulator.provider import Provider
from tieline_catalogue.entry import Proof
from tieline_core.identity.ids import new_id

PATIENCE_MS = PATIENCE * 1000
AT_ONCE = 4
_LONG = 3 * PATIENCE


@dataclass
class Shown:
    """What was shown of an entry, and what went wrong."""

    proven: list[Proof] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        told = "".join(f"\n{proof}: {failure}\n" for proof, failure in self.failures.items())
        return f"shown: {', '.join(self.proven) or 'nothing'}{told}"


@dataclass
class Prover:
    """Goes through one entry."""

    one: Installed
    admin: Client
    environment: str
    page: Page
    let_tokens_age: Callable[[], None]
    """Time goes by for what the platform knows of new tokens."""
    shown: Shown = field(default_factory=Shown)
    user: str = ""

    @property
    def provider(self) -> Provider:
        return self.one.provider

    @property
    def _is_consent(self) -> bool:
        return self._grant == "authorizationCode" or self._is_signing

    @property
    def _is_signing(self) -> bool:
        return self.one.scheme["type"] == "oauth1" and self.provider.signing is not None

    @property
    def _is_password(self) -> bool:
        return self._grant == "password"

    @property
    def _grant(self) -> str:
        oauth2 = self.one.scheme.get("oauth2") or {}
        return str((oauth2.get("grant") or {}).get("type") or "")

    async def prove(self) -> Shown:
        """All steps that fit the entry, in order. Those after a connection that failed are left out."""
        if self.one.problems:
            self.shown.failures["install"] = "".join(self.one.problems)
            return self.shown
        if self.one.scheme["type"] not in EMULATED:
            return self.shown
        if self._is_consent and (self._is_signing or self.provider.scheme is not None):
            await self._by_consent()
        else:
            await self._by_key()
        return self.shown

    async def _step(self, proof: Proof, step: Callable[[], Awaitable[bool | None]]) -> bool:
        """Whether it was shown; a step that answers False does not fit the entry."""
        try:
            async with asyncio.timeout(_LONG):
                fits = await step()
        except Exception as error:
            what = "".join(traceback.format_exception_only(error)).partition("Call log:")[0].strip()
            self.shown.failures[proof] = f"{what[:1000]}\nat {self.page.url[:1000]}\n{await self._text()}"
            return False
        if fits is not False:
            self.shown.proven.append(proof)
        return True

    async def _text(self) -> str:
        """What the page says."""
        try:
            return (await self.page.locator("body").inner_text(timeout=1_000))[:1000]
        except PlaywrightError as error:
            return str(error)[:1000]

    async def _by_consent(self) -> None:
        if not await self._step(Proof.REFUSE, self._refuse):
            return
        if not await self._step(Proof.CONNECT, self._allow):
            return
        if self.provider.system.get("check"):
            await self._step(Proof.CHECK, self._works)
        await self._step(Proof.REFRESH, self._refresh)
        await self._step(Proof.RECONNECT, self._reconnect)

    # The hosted page

    async def _open(self) -> None:
        """The page of a new session of the entry's user."""
        self.user = self.user or f"{self.one.key}-{new_id()}"
        body = {
            "user": {"externalId": self.user, "displayName": "Ann"},
            "environmentId": self.environment,
            "templates": [self.one.template],
        }
        made = await self._ok("POST", "/connect-sessions", body, status=201)
        await self.page.goto(made["url"])

    async def _to_provider(self) -> None:
        await self.page.get_by_role("button", name=START).first.click()
        proceed = self.page.get_by_role("button", name="Continue in this window")
        await proceed.wait_for()
        await self._fill_in_inputs()
        await proceed.click()

    async def _fill_in_inputs(self) -> None:
        """Variables that the System asks people for; the page may know them from before."""
        for one in self.provider.system.get("inputs") or ():
            field = self.page.get_by_role("textbox", name=one.get("label") or one["name"])
            if await field.count():
                await field.first.fill(self.provider.values[one["name"]])

    async def _refuse(self) -> bool | None:
        await self._open()
        if self.provider.scheme and self.provider.scheme.authorization.get("callbackSignature"):
            await self._refuse_forgeries()
        await self._to_provider()
        await self._choose("Deny")
        if not self.provider.sends_back_after_denial:
            await expect(self.page.get_by_text("Access was denied.")).to_be_visible()
            return False
        await expect(self.page.get_by_text("Access was not allowed").first).to_be_visible()
        return None

    async def _refuse_forgeries(self) -> None:
        """Callbacks that an attacker has changed bring no tokens, whatever the person allows."""
        for forgery in Forgery:
            self.provider.forgery = forgery
            await self._decide_again()
            await expect(self.page.get_by_role("heading", name="Not connected")).to_be_visible()
            assert not self.provider.grants.access, f"tokens for a callback with another {forgery}"
            await self._open()
        self.provider.forgery = None

    async def _allow(self) -> None:
        await self._open()
        await self._decide_again()
        await expect(self.page.get_by_text(CONNECTED).first).to_be_visible()

    async def _decide_again(self) -> None:
        await self._to_provider()
        await self._choose("Allow")

    async def _choose(self, decision: str) -> None:
        """Presses a button of the provider's page; fails at once where the provider refused to show it."""
        button = self.page.get_by_role("button", name=decision)
        refusal = self.page.get_by_role("heading", name=REFUSED)
        await expect(button.or_(refusal).first).to_be_visible()
        assert not await refusal.count(), "the provider refuses the authorise request"
        await button.click()

    # Keys, passwords and clients, which people enter

    async def _by_key(self) -> None:
        is_checked = bool(self.provider.system.get("check")) and self.one.scheme["type"] != "none"
        if is_checked and not await self._step(Proof.REFUSE, self._refuse_key):
            return
        if not await self._step(Proof.CONNECT, self._enter_key):
            return
        if self.provider.system.get("check"):
            await self._step(Proof.CHECK, self._works)
        if self.one.scheme["type"] == "oauth2":
            await self._step(Proof.REFRESH, self._refresh)

    def _values(self, secret: str) -> dict[str, str]:
        """What is entered, by the labels of the form."""
        match self.one.scheme["type"]:
            case "basic-auth":
                return {"User name": self.provider.user, "Password": secret}
            case "oauth2" if self._is_password:
                return {"User name": self.provider.user, "Password": secret}
            case "oauth2":
                return {"Client id": self.provider.client.id, "Client secret": secret}
            case "none":
                return {}
        return {"Key or secret": secret}

    @property
    def _secret(self) -> str:
        is_client = self.one.scheme["type"] == "oauth2" and not self._is_password
        return self.provider.client.secret if is_client else self.provider.api_key

    async def _refuse_key(self) -> None:
        await self._open()
        await self.page.get_by_role("button", name=START).first.click()
        await self._fill_in_inputs()
        await self._enter(f"{self.one.key}-key-mistyped", REJECTED)

    async def _enter_key(self) -> None:
        if not self.user:
            await self._open()
            await self.page.get_by_role("button", name=START).first.click()
            await self._fill_in_inputs()
        await self._enter(self._secret, CONNECTED)

    async def _enter(self, secret: str, result: re.Pattern[str]) -> None:
        """Enters it until the platform has room for the request that checks it."""

        async def is_judged() -> bool:
            for label, value in self._values(secret).items():
                await self.page.get_by_role("form").get_by_label(label).fill(value)
            await self.page.get_by_role("form").get_by_role("button", name=START).click()
            busy = self.page.get_by_text(BUSY)
            await expect(self.page.get_by_text(result).or_(busy).first).to_be_visible()
            return await busy.count() == 0

        await eventually_async("a judgement of what was entered", is_judged)

    # The API

    async def _works(self) -> None:
        result = await eventually_async("an answer to the check", self._test)
        assert result["ok"], result

    async def _test(self) -> Any:
        connection = await self._connection()
        result = await self._ok("POST", f"/connections/{connection['id']}/test")
        assert "status" in result, result  # a busy provider does not answer in time
        return result

    async def _call(self) -> Answer:
        connection = await self._connection()
        path: str = (self.provider.system.get("check") or {}).get("path", "/emulated")
        for name, value in self.provider.values.items():
            path = path.replace(f"{{{name}}}", value)
        return await self._asked("GET", f"/connections/{connection['id']}/proxy{path}")

    async def _refresh(self) -> bool | None:
        if not self.provider.grants.refresh:
            return False
        before = self._tokens()
        assert self.provider.expire() > 0
        await asyncio.to_thread(self.let_tokens_age)
        await self._reaches()
        assert self._tokens() > before, "no new access token"
        return None

    def _tokens(self) -> int:
        return len(self.provider.grants.access)

    async def _reaches(self) -> None:
        answer = await self._call()
        assert answer.status in (200, 501), (answer.status, answer.raw[:300])

    async def _reconnect(self) -> None:
        self.provider.revoke()
        await eventually_async("a connection that its provider refuses", self._is_refused)
        await self._open()
        await self._decide_again()
        await expect(self.page.get_by_text(CONNECTED).first).to_be_visible()
        await self._reaches()

    async def _is_refused(self) -> bool:
        """Whether the platform has noticed by a call."""
        await self._call()
        return (await self._connection())["state"] in ("refused", "not_authorised")

    async def _connection(self) -> Any:
        found = (await self._ok("GET", f"/connections?end_user_id={self.user}"))["items"]
        (connection,) = found
        return connection

    async def _ok(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await self._asked(method, path, body)
        assert answer.status == status, (answer.status, answer.raw[:500])
        return answer.json

    async def _asked(self, method: str, path: str, body: Any = None) -> Answer:
        """The answer, once the platform has room for it: entries that are shown at once share its limits."""

        async def answer() -> Answer | None:
            found = await asyncio.to_thread(self.admin, method, path, body)
            return None if found.status == 429 and BUSY.encode() in found.raw else found

        return await eventually_async("room for the request", answer)


ON_THE_PAGE = (Proof.CONNECT, Proof.REFUSE, Proof.RECONNECT, Proof.REFRESH, Proof.CHECK)
"""What is shown here; tests/unit/emulator/test_entries.py shows the rest."""
CONNECTED = re.compile(r"^(Connected|Saved, and not tested yet)$")
BUSY = "Too many requests through connections are under way"
REFUSED = re.compile(r"^Not connected$|: access blocked$")
REJECTED = re.compile("rejects the credentials")
START = re.compile(r"^(Connect |Finish connecting|Connect again)")


async def prove_all(
    installed: list[Installed],
    *,
    admin: Client,
    environment: str,
    internet: EmulatedInternet,
    let_tokens_age: Callable[[], None],
) -> dict[str, Shown]:
    """What is shown of each entry, some at once in one browser."""
    turns = asyncio.Semaphore(AT_ONCE)
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        options = [*OPTIONS, *internet.browser_options]
        browser = await playwright.chromium.launch(**program_options(), args=options)

        async def prove(one: Installed) -> Shown:
            async with turns, _page(browser) as page:
                return await Prover(one, admin, environment, page, let_tokens_age).prove()

        found = await asyncio.gather(*(prove(one) for one in installed))
        await browser.close()
    return {one.key: shown for one, shown in zip(installed, found, strict=True)}


@asynccontextmanager
async def _page(browser: Browser) -> AsyncIterator[Page]:
    """A page in the browser of a new user."""
    context = await browser.new_context(locale="en-GB", ignore_https_errors=True)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield await context.new_page()
    finally:
        await context.close()
