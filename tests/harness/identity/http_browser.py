"""A person at a browser that shows nothing: cookies, pages and forms."""

from __future__ import annotations

import html
import re
import urllib.request
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlencode, urljoin

_FORM = re.compile(r'<form[^>]*\baction="([^"]+)"', re.I)


class FormClient:
    """A browser without pages: cookies, and no following of redirects to other servers."""

    def __init__(self) -> None:
        # Keycloak's cookies are Secure also on http://127.0.0.1, where browsers take them.
        policy = DefaultCookiePolicy(secure_protocols=("http", "https"))
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar(policy)), _Staying()
        )
        self._opener.addheaders.append(("Accept", "text/html"))

    def get(self, url: str) -> tuple[str, str]:
        """The page, and where it sends its reader instead."""
        return self._open(urllib.request.Request(url))

    def post(self, url: str, fields: dict[str, str]) -> tuple[str, str]:
        """What comes of a form."""
        return self._open(urllib.request.Request(url, data=urlencode(fields).encode()))

    def _open(self, request: urllib.request.Request) -> tuple[str, str]:
        with self._opener.open(request, timeout=30) as response:
            return response.read().decode(), response.headers.get("Location") or ""


class _Staying(urllib.request.HTTPErrorProcessor):
    """Every answer is an answer: no redirects followed, no exceptions."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


def form_of(page: str, base: str) -> str:
    """Where the page's form goes."""
    action = _FORM.search(page)
    assert action is not None, f"There is no form: {_visible(page)}"
    return urljoin(base, html.unescape(action[1]))


def hidden_fields(page: str) -> dict[str, str]:
    """What the page's form sends without being asked."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in found}


def _visible(page: str) -> str:
    return " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.S).split())[:500]
