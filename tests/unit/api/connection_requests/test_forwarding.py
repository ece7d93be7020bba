"""What is passed on between callers and systems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.auth.urls import join, origin
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
    assert not {"X-Own", "X-Tieline-Upstream-Location"} & answered_headers(200, answered, ()).keys()


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
    found = answered_headers(200, CIMultiDictProxy(CIMultiDict(given)), ())
    assert {name: found.getall(name) for name in HARMLESS} == {
        name: [value] for name, value in HARMLESS.items()
    }
    assert found.getall("X-Tieline-Upstream-Status") == ["200"]
    allowed = {*HARMLESS, "X-Tieline-Upstream-Status", "X-Tieline-Upstream-Location"}
    assert set(found) <= allowed


def test_secrets_are_masked_and_short_ones_are_no_secrets() -> None:
    assert masked(b"key=k3y-of-shop; a=b", [b"k3y-of-shop", b"a", b""]) == b"key=[redacted]; a=b"


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Dest": "script"}, {"Service-Worker": "script"}])
def test_browsers_load_no_scripts_from_systems(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as raised:
        refuse_pages(CIMultiDict(headers))
    assert raised.value.status == 403
    refuse_pages({"Sec-Fetch-Dest": "empty"})
    refuse_pages({})
