"""URLs with variables: no value moves a token, a code or a client secret to another host."""

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from tieline_protocol.url_inputs import (
    MissingValueError,
    UrlInput,
    UrlInputError,
    filled_path,
    filled_url,
    pattern_problem,
    template_problem,
    url_inputs,
    value_in,
)

TOKEN_URL = "https://{shop}.myshopify.com/admin/oauth/access_token"
ANYTHING = UrlInput(pattern="^.*$")
LISTED = UrlInput(hosts=("*.salesforce.com", "login.example.com"))

HOSTILE = (
    "",
    "evil.com/",
    "evil.com/x",
    "evil.com#",
    "evil.com?",
    "evil.com\\",
    "x@evil",
    "x:y@evil.com",
    "a.b",
    ".",
    "..",
    "a..b",
    "-a",
    "a-",
    "%2e",
    "evil%2ecom%2f",
    "shöp",
    "ｅｖｉｌ",
    "evil。com",
    "evil\u2024com",
    "a b",
    "a\n",
    "a\r\nHost: evil.com",
    "a\0",
    "{shop}",
    "a" * 64,
    "a" * 300,
)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_make_no_url(value: str) -> None:
    with pytest.raises(UrlInputError) as caught:
        filled_url(TOKEN_URL, {"shop": value}, {})
    assert "shop" in str(caught.value)
    if len(value) > 3:
        assert value not in str(caught.value)


@given(value=st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9.@/:%#?\\-]{0,70}", fullmatch=True))
@example(value="my-shop")
@example(value="evil.com")
@example(value="evil.com/")
@example(value="127.0.0.1")
@pytest.mark.parametrize("about", [UrlInput(), ANYTHING], ids=["default", "any pattern"])
def test_no_value_leaves_the_fixed_domain(about: UrlInput, value: str) -> None:
    inputs = {"shop": about}
    for template in (TOKEN_URL, "https://api-{shop}.eu.example.com:8443/{shop}/token?tenant={shop}"):
        try:
            url = filled_url(template, {"shop": value}, inputs)
        except UrlInputError:
            continue
        domain = ".myshopify.com" if template == TOKEN_URL else ".eu.example.com"
        for host in (urlsplit(url).hostname, URL(url).host):
            assert host is not None
            assert host.endswith(domain)
        assert "@" not in url
        assert urlsplit(url).port == (None if template == TOKEN_URL else 8443)
        assert not {".", ".."} & set(urlsplit(url).path.split("/"))


@given(value=st.text(max_size=80) | st.from_regex(r"[A-Za-z0-9.-]{1,60}", fullmatch=True))
@example(value="eu.salesforce.com")
@example(value="login.example.com")
@example(value="evil-salesforce.com")
@example(value="salesforce.com.evil.com")
def test_listed_hosts_alone_are_reached(value: str) -> None:
    try:
        url = filled_url("https://{host}/token", {"host": value}, {"host": LISTED})
    except UrlInputError:
        return
    host = (URL(url).host or "").lower()
    assert host == "login.example.com" or host.endswith(".salesforce.com")


def test_usual_values_make_the_url() -> None:
    inputs = url_inputs(
        {
            "inputs": [
                {"name": "tenant", "pattern": "^[A-Za-z0-9.-]+$"},
                {"name": "host", "hosts": ["*.salesforce.com"]},
            ]
        }
    )
    assert filled_url(TOKEN_URL, {"shop": "my-shop"}, inputs) == (
        "https://my-shop.myshopify.com/admin/oauth/access_token"
    )
    microsoft = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token"
    assert filled_url(microsoft, {"tenant": "contoso.onmicrosoft.com"}, inputs) == (
        "https://login.microsoftonline.com/contoso.onmicrosoft.com/oauth2/v2.0/token"
    )
    assert filled_url("https://{host}/token", {"host": "eu.Salesforce.com"}, inputs) == (
        "https://eu.Salesforce.com/token"
    )
    assert filled_url("https://[::1]:8080/token", {}, inputs) == "https://[::1]:8080/token"
    assert filled_path("/v3/company/{realmId}", {"realmId": "4620816365"}, inputs) == "/v3/company/4620816365"
    with pytest.raises(MissingValueError, match="shop"):
        filled_url(TOKEN_URL, {}, inputs)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/a/{x}/b", {"x": ".."}),
        ("/a/{x}{y}/b", {"x": ".", "y": "."}),
        ("/a/{x}", {"x": "b/../c"}),
        ("/a/{x}", {"x": "b?c=d"}),
        ("/a?b={x}", {"x": "c&d=e"}),
    ],
)
def test_values_stay_in_their_part_of_a_path(path: str, values: dict[str, str]) -> None:
    with pytest.raises(UrlInputError):
        filled_path(path, values, dict.fromkeys(values, ANYTHING))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://{host}/token", "hosts of its input"),
        ("https://{host}.com/token", "hosts of its input"),
        ("https://{host}.co.uk/token", "hosts of its input"),
        ("https://{shop}example.com/token", "hosts of its input"),
        ("https://accounts.{region}/token", "hosts of its input"),
        ("https://{a}.0.0.1/token", "hosts of its input"),
        ("https://{a}.{b}/token", "hosts of its input"),
        ("https://example.com:{port}/token", "port"),
        ("https://{user}@example.com/token", "@"),
        ("https://example.com/{two words}", "curly braces"),
        ("https://example.com/{", "curly braces"),
        ("{scheme}://example.com/", "http"),
    ],
)
def test_templates_that_could_lead_anywhere_are_refused(url: str, says: str) -> None:
    problem = template_problem(url, {"host": UrlInput(pattern="^.*$")})
    assert problem is not None
    assert says in problem
    with pytest.raises(UrlInputError):
        filled_url(url, dict.fromkeys(("host", "shop", "region", "a", "b", "port", "user"), "evil"), {})


def test_fixed_domains_and_listed_hosts_are_accepted() -> None:
    for url in (
        TOKEN_URL,
        "https://{a}.{b}.example.com/",
        "https://{a}.example.co.uk/",
        "https://x.example/{y}",
    ):
        assert template_problem(url, {}) is None
    assert template_problem("https://{host}/token", {"host": LISTED}) is None
    wide = {"host": UrlInput(hosts=("*.com",))}
    assert "*.com" in (template_problem("https://{host}/token", wide) or "")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("[a-z]+", "start with"),
        ("^[a-z]+", "start with"),
        ("^", "start with"),
        ("^[a-z$", "regular expression"),
        (r"^a\$", "start with"),
        ("^(?=a)a$", "look-around"),
        (r"^(a)\1$", "back-references"),
        ("^((a{100}){100}){100}$", "small counts"),
        ("^" + "a" * 300 + "$", "256"),
    ],
)
def test_unusable_patterns_say_what_to_correct(pattern: str, says: str) -> None:
    assert says in (pattern_problem(pattern) or "")
    with pytest.raises(UrlInputError):
        filled_url(TOKEN_URL, {"shop": "a"}, {"shop": UrlInput(pattern=pattern)})


def test_patterns_that_backtrack_elsewhere_take_one_look() -> None:
    # In an engine that backtracks, each of these takes longer than the universe has.
    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^([a-z0-9]+-?)*$", "^(.*)*x$"):
        assert pattern_problem(pattern) is None
        assert UrlInput(pattern=pattern).value_problem("a" * 200 + "_") is not None


def test_anchors_hold_for_each_alternative() -> None:
    inputs = {"shop": UrlInput(pattern="^eu|us$")}
    assert filled_url(TOKEN_URL, {"shop": "eu"}, inputs).startswith("https://eu.myshopify.com/")
    for value in ("eux", "xus", "eu-us"):
        with pytest.raises(UrlInputError):
            filled_url(TOKEN_URL, {"shop": value}, inputs)


@pytest.mark.parametrize(
    ("pasted", "value"),
    [
        ("my-shop", "my-shop"),
        ("my-shop.myshopify.com", "my-shop"),
        ("HTTPS://My-Shop.MyShopify.com/admin?x=1#y", "My-Shop"),
        ("https://my-shop.myshopify.com:443/", "https://my-shop.myshopify.com:443/"),
        (".myshopify.com", ".myshopify.com"),
        ("https://evil.com/.myshopify.com", "https://evil.com/.myshopify.com"),
        ("evil.com/", "evil.com/"),
        ("x@evil.myshopify.com", "x@evil"),
        ("a.b.myshopify.com", "a.b"),
    ],
)
def test_a_pasted_address_is_cut_to_the_value(pasted: str, value: str) -> None:
    assert value_in(pasted, ".myshopify.com") == value
