"""The console's files: what is served, how long it is kept, and what the page may load."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from yarl import URL

from tieline_api.console.static_files import add_files
from tieline_api.http.middleware import add_standard_headers, error_handling

Client = TestClient[web.Request, web.Application]
Start = Callable[[web.Application], Awaitable[Client]]
PAGE = "<!doctype html><title>Console</title>"
SCRIPT = "console.log('" + "tieline " * 400 + "')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "console"
    (made / "assets").mkdir(parents=True)
    (made / "index.html").write_text(PAGE)
    (made / "assets" / "index-a1b2.js").write_text(SCRIPT)
    (made / "assets" / "index-a1b2.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    (made / "assets" / "index-a1b2.js.br").write_bytes(b"brotli")
    (made / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret").write_text("not of the console")
    return made


async def started(start: Start, folder: Path) -> Client:
    app = web.Application(middlewares=[error_handling])
    app.on_response_prepare.append(add_standard_headers)
    add_files(app, folder)
    return await start(app)


@pytest.mark.parametrize(
    "path", ["/console/", "/console/projects/01J", "/console/a.b/c", "/console/index.html"]
)
async def test_paths_of_the_page_get_the_page_which_is_never_kept(
    aiohttp_client: Start, folder: Path, path: str
) -> None:
    client = await started(aiohttp_client, folder)
    answer = await client.get(path)
    assert answer.status == 200
    assert await answer.text() == PAGE
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"


async def test_the_page_may_load_nothing_but_its_own_and_stands_in_no_frame(
    aiohttp_client: Start, folder: Path
) -> None:
    headers = (await (await started(aiohttp_client, folder)).get("/console/")).headers
    rules = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == rules["font-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]


async def test_assets_are_kept_for_ever_and_sent_compressed_to_who_takes_that(
    aiohttp_client: Start, folder: Path
) -> None:
    client = await started(aiohttp_client, folder)
    for accepted, encoding in (("gzip, br", "br"), ("gzip", "gzip"), ("identity", None)):
        answer = await client.get(
            "/console/assets/index-a1b2.js", headers={"Accept-Encoding": accepted}, auto_decompress=False
        )
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        body = await answer.read()
        assert body == {"br": b"brotli", None: SCRIPT.encode()}.get(encoding, body)
        assert encoding != "gzip" or gzip.decompress(body) == SCRIPT.encode()


async def test_other_files_are_served_as_what_they_are_and_asked_for_again(
    aiohttp_client: Start, folder: Path
) -> None:
    answer = await (await started(aiohttp_client, folder)).get("/console/icon.svg")
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.headers["Cache-Control"] == "no-cache"


async def test_an_asset_of_another_release_is_not_found_and_not_the_page(
    aiohttp_client: Start, folder: Path
) -> None:
    answer = await (await started(aiohttp_client, folder)).get("/console/assets/index-old.js")
    assert answer.status == 404
    assert "reload" in (await answer.json())["message"]
    assert answer.headers["Cache-Control"] != "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path", ["../secret", "..%2fsecret", "assets/..%2f..%2fsecret", "%2e%2e/secret", "%00"]
)
async def test_no_path_leads_out_of_the_folder(aiohttp_client: Start, folder: Path, path: str) -> None:

    client = await started(aiohttp_client, folder)
    answer = await client.get(URL(f"/console/{path}", encoded=True))
    assert "not of the console" not in await answer.text()


async def test_a_link_without_the_slash_keeps_its_query(aiohttp_client: Start, folder: Path) -> None:
    client = await started(aiohttp_client, folder)
    answer = await client.get("/console?project=a%20b", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (302, "/console/?project=a%20b")


async def test_an_image_without_a_console_says_so(aiohttp_client: Start, tmp_path: Path) -> None:
    answer = await (await started(aiohttp_client, tmp_path / "none")).get("/console/")
    assert answer.status == 404
    body = await answer.json()
    assert body["code"] == "not_found"
    assert "has no console" in body["message"]
    assert "TIELINE_CONSOLE_FOLDER" in body["message"]
