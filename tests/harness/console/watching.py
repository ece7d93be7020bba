"""What a page must never do, whatever it shows: noted while somebody looks at it."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Request

HOOK = "__pwned"
"""What hostile texts call. A page where it was called has run their script."""
_TRAP = f"""
window.{HOOK} = (...what) => console.error('{HOOK} ' + what.join(' '));
document.addEventListener('securitypolicyviolation', (event) =>
    console.error('Content Security Policy: ' + event.violatedDirective + ' ' + event.blockedURI));
"""


def watch(context: BrowserContext, complaints: list[str], *, allowed: tuple[str, ...] = ()) -> None:
    """Notes errors of scripts, dialogs, breaches of the policy, and requests to URLs that do not begin as allowed ones.

    Call it before the first page is opened.
    """
    context.add_init_script(_TRAP)
    context.on("page", lambda page: _listen(page, complaints))
    if allowed:
        context.on("request", lambda request: _check(request, complaints, allowed))


def _listen(page: Page, complaints: list[str]) -> None:
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("dialog", lambda dialog: (complaints.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "console",
        lambda message: (
            complaints.append(f"{page.url}: {message.text}")
            if "Content Security Policy" in message.text or HOOK in message.text
            else None
        ),
    )


def _check(request: Request, complaints: list[str], allowed: tuple[str, ...]) -> None:
    parts = urlsplit(request.url)
    if parts.scheme not in ("data", "blob") and not request.url.startswith(allowed):
        complaints.append(f"a request to {request.url}")
