"""What is passed on between callers and systems."""

import html
import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.auth.urls import join, origin
from tieline.telemetry.redaction import Redactor
from tieline_api.connection_requests.forwarding import (
    HARMLESS,
    answered_headers,
    checked_path,
    masked,
    refuse_pages,
    sent_headers,
)
from tieline_api.errors import ApiError

BASE = "https://shop.example/v1"


@given(st.text(alphabet=st.sampled_from("ab/.:%\\?#@2eEfF5cC0dD \r\n\x00é"), max_size=24))
def test_no_path_leads_out_of_the_base_url(path: str) -> None:
    try:
        checked = checked_path(f"/{path}")
    except ApiError:
        return
    url = join(base=BASE, path=checked, template="shop")
    assert origin(url) == origin(URL(BASE))
    assert url.raw_path.startswith("/v1/")
    assert ".." not in URL(str(url)).parts
    assert not {"\r", "\n", "\x00"} & set(str(url))


@pytest.mark.parametrize(
    "path", ["", "/orders", "orders/7?a=1&b=..", "v1/users:batch", "/a%2Fb", "/caf\u00e9", "/a//b", "/a..b"]
)
def test_usual_paths_stay_as_they_are(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize(
    "path", ["//h/x", "http://h", "/..", "..", "/a/%2e%2e", "/a%5Cb", "/%0a", "/%", "/a#b"]
)
def test_paths_that_could_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(ApiError) as raised:
        checked_path(path)
    assert [item.field for item in raised.value.fields] == ["path"]


def test_what_is_for_the_api_or_about_one_connection_is_not_sent() -> None:
    given = CIMultiDict(
        {
            "Authorization": "Bearer mine",
            "cookie": "a=b",
            "X-API-Key": "mine",
            "X-Tieline-Revision": "1",
            "Transfer-Encoding": "chunked",
            "Content-Length": "7",
            "Content-Encoding": "gzip",
            "Host": "api",
            "Sec-Fetch-Mode": "cors",
            "X-Forwarded-Host": "api",
            "Proxy-Authorization": "Basic mine",
            "X-Hop": "1",
        }
    )
    given.add("X-Own", "1")
    given.add("X-Own", "2")
    kept = sent_headers(given, ["keep-alive, x-hop"])
    assert list(kept.items()) == [("X-Own", "1"), ("X-Own", "2"), ("Accept-Encoding", "identity")]


def test_a_header_that_is_no_text_is_refused_and_one_of_an_answer_dropped() -> None:
    with pytest.raises(ApiError):
        sent_headers({"X-Own": "\udcff"}, ())
    answered = CIMultiDictProxy(CIMultiDict({"X-Own": "\udcff", "Location": "\udcff"}))
    assert not {"X-Own", "X-Tieline-Upstream-Location"} & answered_headers(200, answered, Redactor()).keys()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "Set-Cookie",
                "Clear-Site-Data",
                "Content-Security-Policy",
                "content-security-policy-report-only",
                "Access-Control-Allow-Origin",
                "Cross-Origin-Opener-Policy",
                "Content-Disposition",
                "Cache-Control",
                "Location",
                "Refresh",
                "X-Accel-Redirect",
                "X-Sendfile",
                "X-Tieline-Upstream-Status",
                "Transfer-Encoding",
            ]
        ),
        st.sampled_from(["a", "b"]),
    )
)
def test_whatever_a_system_answers_its_page_is_harmless(given: dict[str, str]) -> None:
    found = answered_headers(200, CIMultiDictProxy(CIMultiDict(given)), Redactor())
    assert {name: found.getall(name) for name in HARMLESS} == {
        name: [value] for name, value in HARMLESS.items()
    }
    assert found.getall("X-Tieline-Upstream-Status") == ["200"]
    allowed = {*HARMLESS, "X-Tieline-Upstream-Status", "X-Tieline-Upstream-Location"}
    assert set(found) <= allowed


def knowing(*secrets: str) -> Redactor:
    redact = Redactor(jwts=False)
    redact.learn(secrets)
    return redact


SECRET = 'p"ä&/+k3y=<\\>'
WRITTEN = {
    "as it is": SECRET,
    "JSON": json.dumps(SECRET),
    "JSON with its letters": json.dumps(SECRET, ensure_ascii=False),
    "JSON with escaped slashes": json.dumps(SECRET).replace("/", r"\/"),
    "JSON as PHP writes it": json.dumps(SECRET, ensure_ascii=False).replace("/", r"\/"),
    "JSON as Go writes it": json.dumps(SECRET).replace("&", r"\u0026").replace("<", r"\u003C"),
    "JSON with every letter escaped": "".join(f"\\u{ord(letter):04X}" for letter in SECRET),
    "JSON in JSON": json.dumps(json.dumps(SECRET)),
    "JSON in JSON with escaped slashes": json.dumps(json.dumps(SECRET).replace("/", r"\/")),
    "HTML": html.escape(SECRET),
    "HTML with references by number": "".join(f"&#{ord(letter)};" for letter in SECRET),
    "HTML with hexadecimal references": "".join(f"&#x{ord(letter):x};" for letter in SECRET),
    "HTML with references by name": SECRET.replace("&", "&amp;")
    .replace('"', "&quot;")
    .replace("ä", "&auml;"),
    "JSON in HTML": html.escape(json.dumps(SECRET)),
    "a URL": quote(SECRET, safe=""),
    "a URL in small letters": quote(SECRET, safe="").lower(),
    "a URL as JavaScript writes it": quote(SECRET, safe="!'()*"),
    "a URL with every byte escaped": "".join(f"%{byte:02X}" for byte in SECRET.encode()),
    "a URL in a URL": quote(quote(SECRET, safe=""), safe=""),
    "hexadecimal": SECRET.encode().hex(),
    "hexadecimal in capitals": SECRET.encode().hex().upper(),
    **{
        f"{name}, shifted by {shift}": write((b"x" * shift) + SECRET.encode() + b"y").decode()
        for name, write in (("base64", b64encode), ("base64url", urlsafe_b64encode))
        for shift in range(3)
    },
    "base64 with escaped slashes": b64encode(SECRET.encode()).decode().replace("/", r"\/").rstrip("="),
    "base64 in a URL": quote(b64encode(SECRET.encode()).decode(), safe=""),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_secret_is_masked_however_a_system_writes_it(written: str) -> None:
    redact = knowing(SECRET)
    body = f'{{"user": "ann", "said": "{written} &amp; more \\u00e4"}}'
    shown = masked(body.encode(), "application/json", redact).decode()
    assert shown.startswith('{"user": "ann", "said": ')
    assert shown.endswith(' &amp; more \\u00e4"}'), "what is not secret stays as it was written"
    assert "***" in shown
    if "base64" not in written:
        assert written not in shown
    header = answered_headers(200, CIMultiDictProxy(CIMultiDict({"X-Said": written})), redact)
    assert written not in header["X-Said"]


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "utf-16le", "iso-8859-1", "windows-1252"])
def test_a_body_is_searched_in_its_own_character_set(charset: str) -> None:
    shown = masked(f"a {SECRET} ü".encode(charset), f'text/plain; charset="{charset}"', knowing(SECRET))
    assert shown.decode(charset) == "a *** ü"


@pytest.mark.parametrize(
    ("charset", "named"),
    [
        ("utf-16", ""),
        ("utf-16le", ""),
        ("utf-16be", "charset=utf-8"),
        ("iso-8859-1", ""),
        ("utf-8", "charset=iso-8859-1"),
        ("utf-8", "charset=utf-16le"),
        ("utf-8", "charset=utf-16be"),
    ],
)
@pytest.mark.parametrize("end", ["x", "xy"])
def test_a_wrong_or_missing_character_set_hides_no_secret(charset: str, named: str, end: str) -> None:
    secret = "pässw0rd-of-shop"
    shown = masked(f"a {secret} {end}".encode(charset), f"text/xml; {named}", knowing(secret))
    assert shown.decode(charset) == f"a *** {end}"


def test_what_is_not_secret_stays_as_it_is() -> None:
    redact = knowing("k3y-of-shop", "a", "")
    assert masked(b"key=k3y-of-shop; a=b \xff\x00", "", redact) == b"key=***; a=b \xff\x00"
    for body in (bytes(range(256)), b"%ff%00&amp;\\u00e4\\", "\ufeffü".encode("utf-16")):
        assert masked(body, "text/plain; charset=utf-16", redact) == body
        assert masked(body, "application/octet-stream", redact) == body


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Dest": "script"}, {"Service-Worker": "script"}])
def test_browsers_load_no_scripts_from_systems(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as raised:
        refuse_pages(CIMultiDict(headers))
    assert raised.value.status == 403
    refuse_pages({"Sec-Fetch-Dest": "empty"})
    refuse_pages({})
