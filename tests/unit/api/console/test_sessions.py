"""Sessions: what they hold, when they end, and what does not make one."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import jwt
import pytest

from tieline_api.console import cookies
from tieline_api.console.cookies import TooLargeError
from tieline_api.console.session_keys import SessionKeys
from tieline_api.console.sessions import Sessions, of_pasted

START = 1_800_000_000


class Clock:
    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


def cluster(**changes: Any) -> tuple[Sessions, Clock]:
    clock = Clock()
    no_cluster: Any = None
    keys = SessionKeys(no_cluster, "")
    return Sessions(keys, seconds=3600, idle_seconds=600, now=clock, **changes), clock


def kept(headers: list[str]) -> dict[str, str]:
    """What the browser has after an answer."""
    pairs = (header.split("; ")[0].partition("=") for header in headers)
    return cookies.received(["; ".join(f"{name}={value}" for name, _, value in pairs)])


def signed(**claims: Any) -> str:
    return jwt.encode(claims, "a secret that nobody needs to know here", algorithm="HS256")


async def test_a_session_opens_with_what_was_signed_in_with() -> None:
    sessions, clock = cluster()
    session = of_pasted("a-token", now=clock())
    opened = await sessions.open(kept(await sessions.begin(session, {})))
    assert opened is not None
    assert opened.session == session
    assert opened.session.headers() == {"Authorization": "Bearer a-token"}
    assert opened.set_cookies == ()


async def test_an_api_key_is_sent_as_one() -> None:
    key = "tlk_01JD3Y7M5RZX9KQW8T2V4N6P0A_" + "x" * 43
    assert of_pasted(key, now=START).headers() == {"X-API-Key": key}


async def test_cookies_do_not_show_the_token() -> None:
    sessions, clock = cluster()
    token = signed(sub="ann")
    text = "".join(await sessions.begin(of_pasted(token, now=clock()), {}))
    assert not any(part in text for part in token.split("."))
    assert token not in repr(of_pasted(token, now=clock()))


async def test_it_ends_for_good_however_much_it_is_used() -> None:
    sessions, clock = cluster()
    browser = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    for minute in range(60):
        clock.now = START + minute * 60
        opened = await sessions.open(browser)
        assert opened is not None, minute
        browser |= kept(list(opened.set_cookies))
    clock.now = START + 3600
    assert await sessions.open(browser) is None


async def test_it_ends_when_it_is_not_used() -> None:
    sessions, clock = cluster()
    browser = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    clock.now += 599
    assert await sessions.open(browser) is not None
    clock.now += 1
    assert await sessions.open(browser) is None


async def test_it_ends_with_a_token_that_cannot_be_refreshed() -> None:
    sessions, clock = cluster()
    session = of_pasted(signed(exp=START + 100), now=clock())
    browser = kept(await sessions.begin(session, {}))
    assert sessions.ends(session) == START + 100
    assert sessions.ends(replace(session, refresh_token="refresh")) == START + 3600
    clock.now += 100
    assert await sessions.open(browser) is None


async def test_without_the_cookie_of_its_use_or_with_that_of_another_session_it_is_none() -> None:
    sessions, clock = cluster()
    mine = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    other = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    assert await sessions.open({cookies.SESSION: mine[cookies.SESSION]}) is None
    assert await sessions.open({**mine, cookies.SEEN: other[cookies.SEEN]}) is None
    assert await sessions.open({**mine, cookies.SEEN: mine[cookies.SESSION]}) is None


async def test_a_cookie_of_another_key_or_changed_is_no_session() -> None:
    sessions, clock = cluster()
    strangers, _ = cluster()
    browser = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    assert await strangers.open(browser) is None
    value = browser[cookies.SESSION]
    middle = len(value) // 2
    changed = value[:middle] + ("A" if value[middle] != "A" else "B") + value[middle + 1 :]
    assert await sessions.open({**browser, cookies.SESSION: changed}) is None


async def test_a_token_with_hundreds_of_groups_fits_and_a_monstrous_one_is_refused() -> None:
    sessions, clock = cluster()
    groups = [f"{number:08x}-aaaa-4bbb-8ccc-{number * 7919:012x}" for number in range(180)]
    session = of_pasted(signed(groups=groups), now=clock())
    opened = await sessions.open(kept(await sessions.begin(session, {})))
    assert opened is not None
    assert opened.session == session

    with pytest.raises(TooLargeError):
        await sessions.begin(of_pasted(secrets.token_urlsafe(12_000), now=clock()), {})


async def test_sessions_of_another_release_are_none_and_not_an_error() -> None:
    sessions, _ = cluster()

    sealed = await sessions._keys.seal("session", b'{"id":"x","kind":"token","colour":"blue"}')
    seen = await sessions._keys.seal("seen", b'["x",1]')
    assert await sessions.open({cookies.SESSION: f"1.{sealed}", cookies.SEEN: seen}) is None


async def test_a_session_says_when_it_ends_unless_it_is_used_again() -> None:
    sessions, clock = cluster()
    sent = kept(await sessions.begin(of_pasted("a-token", now=clock()), {}))
    clock.now += 20
    opened = await sessions.open(sent)
    assert opened is not None
    assert opened.ends == START + 600
    clock.now += 100  # its last use is noted anew
    opened = await sessions.open(sent)
    assert opened is not None
    assert opened.ends == clock.now + 600
    whole = Sessions(sessions._keys, seconds=150, idle_seconds=600, now=clock)
    opened = await whole.open(sent)
    assert opened is not None
    assert opened.ends == START + 150
