"""Configuration: whoever installs the operator learns at once all that is wrong."""

from __future__ import annotations

import pytest

from tests.harness.identity.certificate_authority import Authority, pem
from tieline_core.environment_settings import SettingsError
from tieline_operator.config import Config

NEEDED = {
    "TIELINE_RUNTIME_IMAGE": "runtime:1",
    "TIELINE_API_URL": "http://api/",
    "TIELINE_ENGINE_URL": "nats://engine",
}


def test_only_image_api_and_engine_are_required() -> None:
    config = Config.from_environment(NEEDED)
    assert (config.workers, config.versions_kept, config.leader_elect) == (8, 20, True)
    assert config.api_url == "http://api"
    assert config.namespaces == ()


def test_what_is_told_is_used() -> None:
    config = Config.from_environment(
        {
            **NEEDED,
            "TIELINE_NAMESPACES": "acme, other ,",
            "TIELINE_WORKERS": "3",
            "TIELINE_LEADER_ELECT": "false",
            "TIELINE_PUBLIC_URL_TEMPLATE": "https://{environment}-{project}.example",
            "TIELINE_LOG_LEVEL": "debug",
            "TIELINE_CLUSTER_DNS": "dns, 169.254.20.10,fd00::/120",
        }
    )
    assert config.namespaces == ("acme", "other")
    assert config.cluster_dns == ("dns", "169.254.20.10", "fd00::/120")
    assert (config.workers, config.leader_elect, config.log_level) == (3, False, "DEBUG")


def test_authorities_of_the_package_index_are_certificates_and_no_bundle_of_a_machine() -> None:
    authority = Authority()
    config = Config.from_environment({**NEEDED, "TIELINE_PACKAGES_CA": authority.ca})
    assert config.packages_ca == authority.ca.strip()
    _, key = authority.issue("index")
    for text, told in (
        (authority.ca + pem(key), "private key"),
        ("/etc/ssl/ca.pem", "BEGIN CERTIFICATE"),
        (authority.ca * 150, "64 KiB"),
    ):
        with pytest.raises(SettingsError, match=told) as wrong:
            Config.from_environment({**NEEDED, "TIELINE_PACKAGES_CA": text})
        assert text[:40] not in str(wrong.value)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    wrong = {
        "TIELINE_API_URL": "api",
        "TIELINE_WORKERS": "0",
        "TIELINE_LEADER_ELECT": "perhaps",
        "TIELINE_PUBLIC_URL_TEMPLATE": "http://{ip}",
        "TIELINE_METRICS_PORT": "70000",
        "TIELINE_CLUSTER_DNS": "kube-system,10.0.0.1/8",
    }
    with pytest.raises(SettingsError) as error:
        Config.from_environment(wrong)
    for name in (*wrong, "TIELINE_RUNTIME_IMAGE", "TIELINE_ENGINE_URL"):
        assert name in str(error.value)
    assert "TIELINE_WORKERS must be a number from 1 to 256, not '0'" in str(error.value)


@pytest.mark.parametrize("template", ["http://{", "http://{clusterIP!x}{nope}"])
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(SettingsError, match="TIELINE_PUBLIC_URL_TEMPLATE"):
        Config.from_environment({**NEEDED, "TIELINE_PUBLIC_URL_TEMPLATE": template})


def test_an_empty_variable_counts_as_not_set() -> None:
    required = ("runtime_image", "api_url", "engine_url")
    names = [name.upper() for name in Config.model_fields if name not in required]
    for blank in ("", " "):
        assert Config.from_environment(
            {**NEEDED, **{f"TIELINE_{name}": blank for name in names}}
        ) == Config.from_environment(NEEDED)


def test_settings_made_in_code_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_WORKERS", "3")
    made = Config(runtime_image="runtime:1", api_url="http://api", engine_url=("nats://engine",))
    assert made.workers == 8


def test_fields_made_of_several_variables_are_no_variables() -> None:
    told = {**NEEDED, "TIELINE_EGRESS": "x", "TIELINE_EXPOSURE": "x"}
    assert Config.from_environment(told) == Config.from_environment(NEEDED)


def test_a_mode_of_tls_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsError, match="TIELINE_TLS must be disabled, optional or required, not 'on'"):
        Config.from_environment({**NEEDED, "TIELINE_TLS": "on"})


def test_only_an_engine_of_the_release_has_certificates_of_the_platform() -> None:
    own = {
        "TIELINE_ENGINE_URL": "tls://tieline-engine.platform.svc:4222",
        "TIELINE_LEASE_NAMESPACE": "platform",
    }
    assert Config.from_environment({**NEEDED, **own, "TIELINE_TLS": "required"}).engine_by_tls
    assert not Config.from_environment({**NEEDED, **own}).engine_by_tls
    assert not Config.from_environment({**NEEDED, "TIELINE_TLS": "required"}).engine_by_tls
