"""Settings of the event engine are checked at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.harness.processes.engine_away import VARIABLES, api_settings
from tieline_api.settings import Settings
from tieline_core.environment_settings import SettingsError
from tieline_core.tls import TlsMode


def test_servers_of_the_engine_are_urls_of_nats() -> None:
    several = api_settings(engine_url="nats://a:4222, tls://b.example")
    assert several.engine_url == ("nats://a:4222", "tls://b.example")
    for wrong in ("a:4222", "http://a", "nats://", "nats://user:secret@a", "nats://a/path"):
        with pytest.raises(ValidationError) as refused:
            api_settings(engine_url=wrong)
        assert "nats://tieline-engine:4222" in str(refused.value)


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("text", [None, " "])
def test_without_an_engine_the_api_does_not_start(name: str, text: str | None) -> None:
    given = {**VARIABLES, name: text}
    with pytest.raises(SettingsError, match=f"^{name} is not set$"):
        Settings.from_environment({key: value for key, value in given.items() if value is not None})
    with pytest.raises(SettingsError, match="at least one server"):
        Settings.from_environment({**VARIABLES, "TIELINE_ENGINE_URL": ","})


def test_tls_needs_a_certificate_and_a_port_of_its_own() -> None:
    with pytest.raises(ValidationError, match="TIELINE_TLS=required needs TIELINE_TLS_FOLDER too"):
        api_settings(tls=TlsMode.REQUIRED)
    with pytest.raises(ValidationError, match="TIELINE_INTERNAL_TLS_PORT"):
        api_settings(tls=TlsMode.OPTIONAL, tls_folder=Path("/tls"), internal_tls_port=8080)
    assert api_settings(internal_tls_port=8080).tls is TlsMode.DISABLED


def test_the_index_of_runs_is_beside_the_traces_unless_it_is_said() -> None:
    assert api_settings(traces_file="/data/t.db").runs_path == Path("/data/tieline-runs.db")
    assert api_settings(traces_file="/data/t.db", runs_file="/other/r.db").runs_path == Path("/other/r.db")


def test_an_origin_that_no_browser_sends_ends_the_start() -> None:
    found = api_settings(cors_origins="https://App.example, https://b\u00fccher.example:8443")
    assert found.cors_origins == {"https://app.example", "https://xn--bcher-kva.example:8443"}
    for wrong in ("https://*.app.example", "https://app.example;x", "*"):
        with pytest.raises(ValidationError, match="one origin"):
            api_settings(cors_origins=wrong)
