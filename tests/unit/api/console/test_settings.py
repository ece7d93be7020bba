"""Settings of the console are checked at the start, and say what is missing."""

from __future__ import annotations

import orjson
import pytest

from tests.harness.processes.engine_away import VARIABLES
from tieline_api.console.provider import ProviderError, parse_endpoints
from tieline_api.settings import Settings
from tieline_core.environment_settings import SettingsError

ISSUER = "https://login.example/realms/company"
GOOD = {
    **VARIABLES,
    "TIELINE_CONSOLE_OIDC_ISSUER": ISSUER,
    "TIELINE_CONSOLE_OIDC_CLIENT_ID": "tieline",
    "TIELINE_PUBLIC_API_URL": "https://tieline.example",
}
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/certs",
}


def test_an_issuer_with_all_that_it_needs_is_taken() -> None:
    assert Settings.from_environment(GOOD).console_oidc_issuer == ISSUER


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"TIELINE_CONSOLE_OIDC_CLIENT_ID": ""}, "TIELINE_CONSOLE_OIDC_CLIENT_ID"),
        ({"TIELINE_PUBLIC_API_URL": ""}, "TIELINE_PUBLIC_API_URL"),
        ({"TIELINE_PUBLIC_API_URL": "http://tieline.example"}, "https://"),
        ({"TIELINE_CONSOLE_OIDC_SCOPES": "profile"}, "openid"),
        ({"TIELINE_CONSOLE_OIDC_ISSUER": "http://login.example"}, "TIELINE_CONSOLE_OIDC_ISSUER"),
        ({"TIELINE_CONSOLE_OIDC_TOKEN": "both"}, "TIELINE_CONSOLE_OIDC_TOKEN"),
        ({"TIELINE_CONSOLE_SESSION_HOURS": "0"}, "TIELINE_CONSOLE_SESSION_HOURS"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(change: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({**GOOD, **change})
    assert said in str(refused.value)


def test_an_issuers_document_is_read() -> None:
    found = parse_endpoints(orjson.dumps(DOCUMENT), issuer=ISSUER)
    assert (found.token, found.end_session, found.takes_basic) == (f"{ISSUER}/token", "", True)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://login.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
    ],
)
def test_a_document_of_another_issuer_or_with_endpoints_in_the_clear_is_refused(
    change: dict[str, object],
) -> None:
    with pytest.raises(ProviderError):
        parse_endpoints(orjson.dumps({**DOCUMENT, **change}), issuer=ISSUER)
