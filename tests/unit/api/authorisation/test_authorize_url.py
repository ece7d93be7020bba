"""The five rules of the OAuth 2.0 initialise operation, as properties of the URL."""

from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.authorisation.authorize_url import (
    AuthorizeUrlError,
    AuthorizeUrlParameters,
    authorize_url,
    challenge,
)

SET_ALWAYS = ["response_type", "client_id", "redirect_uri", "scope", "state"]
SCOPES = st.lists(st.sampled_from(["read", "write", "offline_access", "a:b", "https://x/y"]), max_size=6)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz-.", min_size=3, max_size=10).filter(
    lambda name: name not in {*SET_ALWAYS, "prompt"}
)
PAIRS = st.lists(st.tuples(NAMES, st.text(max_size=12)), max_size=5)


def _url(verifier: str | None = None, **wanted: Any) -> str:
    asked = AuthorizeUrlParameters(
        **{"authorize_url": "https://shop.example/authorize", "client_id": "c", **wanted}
    )
    return authorize_url(asked, redirect_uri="https://t.example/oauth/callback", state="s", verifier=verifier)


def _query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query, keep_blank_values=True)


@given(scopes=SCOPES, disabled=st.booleans())
def test_1_offline_access_joins_the_scopes_once_unless_disabled(scopes: list[str], disabled: bool) -> None:
    said = _query(_url(scopes=tuple(scopes), disable_offline_access=disabled)).get("scope", [""])[0].split()
    assert len(said) == len(set(said))
    assert set(said) == set(scopes) | (set() if disabled else {"offline_access"})
    assert [one for one in said if one != "offline_access"] == [
        one for one in dict.fromkeys(scopes) if one != "offline_access"
    ]


@given(
    values=st.lists(st.sampled_from(["none", "login", "consent", "select_account", "é", "x&y"]), min_size=1)
)
@pytest.mark.parametrize("joiner", ["+", " "])
def test_2_any_prompt_goes_and_several_are_joined_with_plus(joiner: str, values: list[str]) -> None:
    url = _url(prompt=joiner.join(values))
    assert _query(url)["prompt"] == [" ".join(values)]
    if len(values) > 1 and values[0] == "login":
        assert "prompt=login+" in url


@pytest.mark.parametrize("absent", ["", " ", "+"])
def test_3_the_prompt_is_login_unless_there_is_an_approval_prompt(absent: str) -> None:
    assert _query(_url(prompt=absent))["prompt"] == ["login"]
    forced = _query(_url(prompt=absent, additional_params="approval_prompt=force"))
    assert "prompt" not in forced
    assert forced["approval_prompt"] == ["force"]
    assert _query(_url(prompt="consent", additional_params="approval_prompt=force"))["prompt"] == ["consent"]


@given(taken=st.sets(st.sampled_from([*SET_ALWAYS, "prompt"]), min_size=1), pairs=PAIRS)
def test_4_parameters_that_the_service_sets_are_refused_by_name(
    taken: set[str], pairs: list[tuple[str, str]]
) -> None:
    query = urlencode([*pairs, *((name, "mine") for name in taken)])
    with pytest.raises(AuthorizeUrlError) as refused:
        _url(additional_params=query)
    assert refused.value.field == "additionalParams"
    for name in taken:
        assert name in refused.value.message
    with pytest.raises(AuthorizeUrlError) as refused:
        _url(authorize_url=f"https://shop.example/authorize?{query}")
    assert refused.value.field == "authorizeUrl"


def test_4_a_challenge_is_refused_where_the_service_sets_one() -> None:
    assert _query(_url(additional_params="code_challenge=x"))["code_challenge"] == ["x"]
    with pytest.raises(AuthorizeUrlError, match="code_challenge"):
        _url(verifier="v", additional_params="code_challenge=x")


@given(kept=PAIRS, added=PAIRS)
def test_5_the_rest_joins_a_query_that_is_kept(
    kept: list[tuple[str, str]], added: list[tuple[str, str]]
) -> None:
    base = "https://shop.example/authorize"
    url = _url(
        authorize_url=f"{base}?{urlencode(kept)}" if kept else base, additional_params=urlencode(added)
    )
    assert url.startswith(f"{base}?{urlencode(kept)}")
    said = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    assert said[: len(kept)] == kept
    assert said[len(said) - len(added) :] == added
    assert {"response_type", "client_id", "redirect_uri", "scope", "state"} <= {name for name, _ in said}


def test_the_challenge_is_the_one_of_rfc_7636_appendix_b() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    query = _query(_url(verifier=verifier))
    assert (query["code_challenge"], query["code_challenge_method"]) == ([challenge(verifier)], ["S256"])


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("authorizeUrl", {"authorize_url": "https://{shop}.example/authorize"}),
        ("authorizeUrl", {"authorize_url": "https://shop.example/#fragment"}),
        ("authorizeUrl", {"authorize_url": "https://user:pw@shop.example/"}),
        ("authorizeUrl", {"authorize_url": "javascript:alert(1)"}),
        ("authorizeUrl", {"authorize_url": "https://[::1"}),
        ("authorizeUrl", {"authorize_url": "https://a..b/"}),
        ("authorizeUrl", {"authorize_url": f"https://{'a' * 64}.example/"}),
        ("authorizeUrl", {"authorize_url": "https://shop.example:99999/"}),
        ("additionalParams", {"additional_params": "a=%ff"}),
        ("additionalParams", {"additional_params": "&".join(["a=1"] * 200)}),
        ("scopes", {"scopes": ('a"b',)}),
    ],
)
def test_what_no_browser_or_server_would_take_is_refused(field: str, wanted: dict[str, Any]) -> None:
    with pytest.raises(AuthorizeUrlError) as refused:
        _url(**wanted)
    assert refused.value.field == field
