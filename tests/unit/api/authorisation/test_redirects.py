"""Where OAuth may send users back to."""

import pytest

from tests.harness.processes.engine_away import VARIABLES
from tieline_api.authorisation.authorization_request import is_loopback
from tieline_api.settings import Settings
from tieline_core.environment_settings import SettingsError


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:51004/callback?a=1",
        "http://[::1]:51004/callback",
        "http://localhost:8080/x",
        "http://LOCALHOST/",
    ],
)
def test_addresses_of_the_users_own_machine_are_loopback(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "http://127.0.0.2/",
        "http://0.0.0.0/",
        "http://127.0.0.1.evil.example/",
        "http://evil.example/?http://127.0.0.1/",
        "http://127.0.0.1@evil.example/",
        "http://user@127.0.0.1/",
        "http://evil.example\\@127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1/#fragment",
        "http://localhost.evil.example/",
        "http://[::1/",
        "http://[::ffff:127.0.0.1]/",
        "myapp://127.0.0.1/",
        "//127.0.0.1/",
    ],
)
def test_everything_else_is_not(url: str) -> None:
    assert not is_loopback(url)


def test_loopback_is_allowed_unless_it_is_switched_off() -> None:
    assert Settings.from_environment(VARIABLES).loopback_redirects
    assert not Settings.from_environment(
        {**VARIABLES, "TIELINE_LOOPBACK_REDIRECTS": "False"}
    ).loopback_redirects
    with pytest.raises(SettingsError, match="TIELINE_LOOPBACK_REDIRECTS must be true or false"):
        Settings.from_environment({**VARIABLES, "TIELINE_LOOPBACK_REDIRECTS": "maybe"})
