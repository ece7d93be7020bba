"""Requests of other pages are told apart, and one returns to paths of the console alone."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.console.browser_checks import HOME, has_header, is_from_elsewhere, local_path, refuse_others
from tieline_api.errors import ApiError

OWN = "https://tieline.example"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def request(**headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request("POST", "/console/session", headers={"Host": "tieline.example", **named})


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "https://app.tieline.example"},
        {"Origin": "https://tieline.example:8443"},
        {"Origin": "null"},
        {"Origin": OWN, "Sec_Fetch_Site": "cross-site"},
    ],
)
def test_requests_of_other_pages_are_refused(headers: dict[str, str]) -> None:
    assert is_from_elsewhere(request(**headers), public_url=OWN)
    assert is_from_elsewhere(request(**headers), public_url="")
    with pytest.raises(ApiError) as refused:
        refuse_others(request(**headers), public_url=OWN)
    assert refused.value.status == 403


@pytest.mark.parametrize("headers", [{}, {"Origin": OWN}, {"Origin": OWN, "Sec_Fetch_Site": "same-origin"}])
def test_requests_of_the_own_page_and_of_programs_are_not(headers: dict[str, str]) -> None:
    refuse_others(request(**headers), public_url=OWN)


def test_behind_a_proxy_that_changes_the_host_the_public_address_counts() -> None:
    inside = make_mocked_request("POST", "/", headers={"Host": "10.0.0.7:8080", "Origin": OWN})
    assert not is_from_elsewhere(inside, public_url=OWN)
    assert is_from_elsewhere(inside, public_url="")


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "tieline.localhost"])
def test_plain_http_is_enough_on_the_readers_own_machine(host: str) -> None:
    page = make_mocked_request("POST", "/", headers={"Host": host, "Origin": f"http://{host}"})
    refuse_others(page, public_url="")


@pytest.mark.parametrize(
    "host", ["tieline.example", "10.96.3.4", "127.0.0.1.evil.example", "localhost.example"]
)
def test_plain_http_is_refused_elsewhere_with_what_to_do(host: str) -> None:
    page = make_mocked_request("POST", "/", headers={"Host": host, "Origin": f"http://{host}"})
    with pytest.raises(ApiError) as refused:
        refuse_others(page, public_url="")
    assert "HTTPS" in str(refused.value)
    assert "port-forward" in str(refused.value)


def test_the_header_counts_once_and_with_its_value_alone() -> None:
    assert has_header(request(X_Tieline_Console="1"))
    for wrong in ({}, {"X_Tieline_Console": ""}, {"X_Tieline_Console": "0"}, {"X_Tieline_Console": "1, 1"}):
        assert not has_header(request(**wrong))


@pytest.mark.parametrize(
    "path",
    [
        "/console",
        "/console/",
        "/console/projects/01J?env=dev#logs",
        "/console/a%20b",
        "/console/?q=a//b",
        f"/console/{ULID}/approvals/{ULID}/{ULID}",
    ],
)
def test_one_returns_to_where_one_was(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "//evil.example",
        "//evil.example/console/",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example/console/",
        "/console//evil.example",
        "/consoles/",
        "/console@evil.example",
        "/console/../docs",
        "/console/%2e%2e/docs",
        "/console/%252e%252e/docs",
        "/console/%5c%5cevil.example",
        "/console/%0d%0aSet-Cookie:a=b",
        "/console/\r\nSet-Cookie: a=b",
        "/console/\tx",
        "javascript:alert(1)",
        "/oauth2/callback",
        "/api/v2",
        "/console/ä",
        "/console/" + "a" * 3000,
    ],
)
def test_one_returns_nowhere_else(path: str) -> None:
    assert local_path(path) == HOME


@given(text=st.text(max_size=60) | st.text("/\\.%2eE:@consl", max_size=30).map("/console".__add__))
def test_whatever_is_asked_for_one_stays_in_the_console(text: str) -> None:
    found = urlsplit(urljoin(OWN, local_path(text)))
    assert (found.scheme, found.netloc) == ("https", "tieline.example")
    assert found.path == "/console" or found.path.startswith("/console/")
