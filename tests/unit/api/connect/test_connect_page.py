"""The hosted page of connect sessions: in whose frames it stands, what it may load, and how it looks."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.harness.processes import engine_away
from tests.unit.api.auth.test_connect_sessions import ORGANISATION, made, sessions
from tieline_api.auth.connect_sessions import new_token, page_key
from tieline_api.connect import texts as texts_module
from tieline_api.connect.brand import BrandError, Brands, parse
from tieline_api.connect.policy import headers
from tieline_api.connect.routes import add_connect_page
from tieline_api.connect.texts import english_texts, problem_with
from tieline_api.http.middleware import add_standard_headers, error_handling
from tieline_api.schemas.connect_sessions import Origin
from tieline_core.identity.ids import new_id

Client = TestClient[web.Request, web.Application]
Start = Callable[[web.Application], Awaitable[Client]]
TOKEN = new_token(ORGANISATION)
PATH = f"/connect/{ORGANISATION}/{page_key(TOKEN)}"
PNG = "data:image/png;base64," + base64.b64encode(b"png").decode()
BRAND = {
    "name": "Acme",
    "colours": {"accent": "#112233"},
    "texts": {"en": {"title": "Your tools"}},
    "systems": {"shop.example": {"purpose": {"en": "Orders"}}},
    "organisations": {ORGANISATION.lower(): {"name": "Acme Pro", "logo": "https://acme.example/logo.svg"}},
}


def test_a_third_language_needs_no_more_than_its_texts() -> None:
    brands = parse(b"languages: [en, fr]\ntexts: {fr: {cancel: Annuler, connect: 'Connecter {system}'}}")
    assert brands.texts["fr"]["cancel"] == "Annuler"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            "fr: {cancle: Annuler}",
            'texts: Value error, fr: unknown text "cancle": did you mean "cancel"?',
        ),
        ("fr: {connect: 'Connecter {sytem}'}", "{sytem} is not a placeholder of this text"),
        ("FR: {cancel: Annuler}", "texts"),
        ("fr: {cancel: [Annuler]}", "texts.fr.cancel"),
    ],
)
def test_texts_that_the_page_would_not_show_are_refused(texts: str, message: str) -> None:
    with pytest.raises(BrandError) as caught:
        parse(f"texts: {{{texts}}}".encode())
    assert message in str(caught.value)


def test_all_texts_of_the_script_are_known() -> None:
    script = (Path(texts_module.__file__).parent / "files" / "texts.js").read_text()
    keys = re.findall(r'^    "?([\w.-]+)"?:', script, re.MULTILINE)
    known = english_texts()
    assert len(known) > 60
    assert sorted(keys) == sorted([*known, *known])


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_text_is_checked(key: str, text: str) -> None:
    problem_with(key, text)
    assert problem_with("cancel", text) == "" or "{" in text


async def started(start: Start, *secrets: dict[str, Any], brand: Path | None = None) -> Client:
    app = web.Application(middlewares=[error_handling])
    app.on_response_prepare.append(add_standard_headers)
    platform: Any = SimpleNamespace(
        settings=engine_away.api_settings(connect_brand_file=str(brand) if brand else None),
        rates=SimpleNamespace(hit=lambda _caller: None),
        connect_sessions=sessions(*secrets),
    )
    add_connect_page(app, platform)
    return await start(app)


def policy_of(answer: Any) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in answer.headers["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in parts}


async def test_the_page_stands_in_frames_of_its_sessions_origins_alone(aiohttp_client: Start) -> None:
    client = await started(
        aiohttp_client, made(TOKEN, origins=("https://app.example", "http://localhost:3000"))
    )
    answer = await client.get(PATH)
    assert answer.status == 200
    assert policy_of(answer)["frame-ancestors"] == "https://app.example http://localhost:3000"
    other = f"/connect/{ORGANISATION}/{page_key(new_token(ORGANISATION))}"
    for path in (other, f"/connect/{new_id()}/{page_key(TOKEN)}", "/connect/authorise"):
        answer = await client.get(path)
        assert policy_of(answer)["frame-ancestors"] == "'none'", path


async def test_a_session_without_origins_stands_in_no_frame(aiohttp_client: Start) -> None:
    client = await started(aiohttp_client, made(TOKEN, origins=()))
    assert policy_of(await client.get(PATH))["frame-ancestors"] == "'none'"


@given(st.lists(st.text(max_size=40) | st.just("https://app.example"), max_size=25))
def test_nothing_but_origins_gets_into_the_policy(frames: list[str]) -> None:
    value = headers(frames=frames)["Content-Security-Policy"].rpartition("frame-ancestors ")[2]
    assert value == "'none'" or all(one.startswith(("http://", "https://")) for one in value.split(" "))
    assert not set(value) & set(';,*\r\n"')


ORIGINS = TypeAdapter(Origin)


@pytest.mark.parametrize(
    ("given", "framed"),
    [
        ("https://App.example:443/", "https://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("https://b\u00fccher.example:8443", "https://xn--bcher-kva.example:8443"),
    ],
)
def test_an_origin_that_a_session_accepts_may_frame_the_page(given: str, framed: str) -> None:
    origin = ORIGINS.validate_python(given)
    assert headers(frames=[origin])["Content-Security-Policy"].endswith(f"frame-ancestors {framed}")


@pytest.mark.parametrize(
    "given",
    [
        "https://*.app.example", "https://app.example;x", "https://app.example,x", "https://app_1.example",
        "https://app.example/path", "https://app.example'", "https://a..b", "https://-a", "https://[::1]",
        "https://a%2eb", "https://\uff0eexample", "https://user@app.example", "*", "null", "ftp://app.example",
        "https://app.example:99999", "https://",
    ],
)  # fmt: skip
def test_what_no_policy_can_name_is_no_origin_of_a_session(given: str) -> None:
    with pytest.raises(ValidationError):
        ORIGINS.validate_python(given)


@given(st.text("aZ0.-_:/;*, [\u00fc\u3002\u2603", max_size=12))
def test_no_accepted_origin_is_left_out_of_the_policy(host: str) -> None:
    try:
        origin = ORIGINS.validate_python(f"https://{host}")
    except ValidationError:
        return
    assert headers(frames=[origin])["Content-Security-Policy"].endswith(f"frame-ancestors {origin}")


async def test_the_page_loads_its_own_files_and_sends_no_referrer(aiohttp_client: Start) -> None:
    client = await started(aiohttp_client)
    answer = await client.get(PATH)
    found = policy_of(answer)
    assert found["default-src"] == "'none'"
    assert {found[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert found["require-trusted-types-for"] == "'script'"
    assert (answer.headers["Referrer-Policy"], answer.headers["Cache-Control"]) == ("no-referrer", "no-store")
    text = await answer.text()
    script = text.partition('src="')[2].partition('"')[0]
    asset = await client.get(f"/connect/{ORGANISATION}/{script}")
    assert (asset.status, asset.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in asset.headers["Cache-Control"]
    version = script.split("/")[-2]
    older = await client.get(f"/connect/{ORGANISATION}/{script.replace(version, '0' * 12)}")
    assert older.headers["Cache-Control"] == "no-store"
    for name in ("index.html", "none.js"):
        assert (await client.get(f"/connect/assets/{version}/{name}")).status == 404


async def test_its_files_are_sent_compressed_to_browsers_that_take_that(aiohttp_client: Start) -> None:
    client = await started(aiohttp_client, made(TOKEN))
    text = await (await client.get(PATH)).text()
    script = re.search(r'src="\.\./([^"]+)"', text)
    assert script
    path = f"/connect/{script[1]}"
    answer = await client.get(path, headers={"Accept-Encoding": "gzip"})
    assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
    plain = await client.get(path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert await answer.text() == await plain.text()


async def test_a_token_in_the_path_is_no_page(aiohttp_client: Start) -> None:
    client = await started(aiohttp_client, made(TOKEN))
    assert (await client.get(f"/connect/{ORGANISATION}/{TOKEN}")).status == 404


async def test_the_brand_is_the_organisations_and_else_the_usual_one(
    aiohttp_client: Start, tmp_path: Path
) -> None:
    file = tmp_path / "brand.json"
    file.write_text(json.dumps(BRAND))
    client = await started(aiohttp_client, made(TOKEN), brand=file)
    own = await (await client.get(f"/connect/brand/{ORGANISATION}")).json()
    assert (own["name"], own["colours"], own["logo"]) == (
        "Acme Pro", {"accent": "#112233"}, "https://acme.example/logo.svg",
    )  # fmt: skip
    usual = await (await client.get(f"/connect/brand/{new_id()}")).json()
    assert (usual["name"], usual["texts"]) == ("Acme", {"en": {"title": "Your tools"}})
    assert "logo" not in usual
    assert "organisations" not in own | usual
    assert policy_of(await client.get(PATH))["img-src"] == "'self' data: https://acme.example"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"name": ""}, "name"),
        ({"colours": {"accent": "red; } body {"}}, "colours.accent"),
        ({"colours": {"text": "#000"}}, "needs all of background, surface and text"),
        ({"logo": "javascript:alert(1)"}, "logo"),
        ({"logo": "data:text/html;base64,AAAA"}, "logo"),
        ({"organisations": {"acme": {}}}, "organisations"),
        ({"colors": {}}, "colors"),
        ({"texts": {"EN": {"title": "x"}}}, "texts"),
    ],
)
def test_a_brand_that_cannot_be_used_is_refused_with_the_field(content: Any, words: str) -> None:
    with pytest.raises(BrandError, match=words):
        parse(json.dumps(content).encode())


def test_a_brand_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrandError, match="cannot be read"):
        Brands.read(str(tmp_path / "none"))
    with pytest.raises(BrandError, match="no YAML"):
        parse(b"{")
    assert parse(json.dumps({"logo": PNG}).encode()).logo == PNG


def test_a_session_leads_to_the_hosted_page_or_to_your_own() -> None:
    assert engine_away.api_settings().connect_page("a/b") == ""
    assert (
        engine_away.api_settings(public_api_url="https://t.example/api").connect_page("a/b")
        == "https://t.example/api/connect/a/b"
    )
    own = engine_away.api_settings(
        public_api_url="https://t.example", connect_page_url="https://app.example/connect"
    )
    assert own.connect_page("a/b") == "https://app.example/connect"
