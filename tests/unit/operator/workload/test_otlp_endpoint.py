"""A collector of one's own for the traces of project pods."""

import pytest

from tieline_core.environment_settings import SettingsError
from tieline_operator.config import Config

_NEEDED = {
    "TIELINE_RUNTIME_IMAGE": "runtime:1",
    "TIELINE_API_URL": "http://api",
    "TIELINE_ENGINE_URL": "nats://engine",
}


def test_pods_send_traces_to_the_collector_that_the_administrator_names() -> None:
    config = Config.from_environment({**_NEEDED, "TIELINE_OTLP_ENDPOINT": "http://collector:4318/"})
    assert config.otlp_endpoint == "http://collector:4318"
    assert Config.from_environment(_NEEDED).otlp_endpoint == ""


def test_a_collector_that_is_no_url_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="TIELINE_OTLP_ENDPOINT must start with http"):
        Config.from_environment({**_NEEDED, "TIELINE_OTLP_ENDPOINT": "collector:4318"})
