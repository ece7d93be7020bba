"""Quotas of an organisation: the annotation of its Namespace, over the platform's defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tieline_core.environment_settings import SettingsError
from tieline_core.resources.quotas import NO_QUOTAS, OrganisationQuotas, Quotas, quotas_of
from tieline_operator.config import Config

REQUIRED = {
    "TIELINE_RUNTIME_IMAGE": "runtime:1",
    "TIELINE_API_URL": "http://api",
    "TIELINE_ENGINE_URL": "nats://engine:4222",
}


def applied(annotation: Any, defaults: Quotas = NO_QUOTAS) -> OrganisationQuotas:
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    return quotas_of({"metadata": {"name": "acme", "annotations": {"tieline.dev/quotas": text}}}, defaults)


def test_an_annotation_in_yaml_or_json_sets_quotas() -> None:
    yaml = applied("environments: 3\nengineStorage: 4Gi\n")
    assert yaml == applied({"environments": 3, "engineStorage": "4Gi"})
    assert (yaml.quotas.environments, yaml.quotas.engine_storage) == (3, 4 << 30)


def test_what_the_annotation_leaves_out_has_the_platforms_default() -> None:
    defaults = Quotas(environments=10, replicas=20, requests_per_second=50)
    found = applied({"environments": 3, "replicas": None}, defaults).quotas
    assert (found.environments, found.replicas, found.requests_per_second) == (3, None, 50)
    assert quotas_of(None, defaults).quotas == defaults


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("environments: [", "it is no YAML"),
        ("environments: 2026-02-30", "it is no YAML"),
        (f"environments: {'9' * 5000}", "it is no YAML"),
        ({"enviroments": 3}, "enviroments: Extra inputs"),
        ({"environments": -1}, "environments: Input should be greater than or equal to 0"),
        ({"replicas": "many"}, "replicas: Input should be a valid integer"),
        ({"engineStorage": "lots"}, "engineStorage: Value error, must be a quantity of bytes such as 4Gi"),
        ({"stateStorage": "1Ki"}, "stateStorage: Input should be greater than or equal to 16777216"),
        ("x" * 33_000, "more than 32 KiB"),
    ],
)
def test_an_annotation_that_cannot_be_used_says_why(annotation: Any, words: str) -> None:
    found = applied(annotation, Quotas(environments=10))
    assert words in found.problem
    assert "an administrator of the cluster must correct it" in found.problem
    assert found.quotas == Quotas(environments=10)


def test_defaults_and_the_volume_come_from_settings() -> None:
    settings = Config.from_environment(
        REQUIRED | {"TIELINE_QUOTAS": "{environments: 5}", "TIELINE_ENGINE_VOLUME": "10Gi"}
    )
    assert (settings.quotas.environments, settings.engine_volume) == (5, 10 << 30)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("TIELINE_QUOTAS", "{pods: 5}", "must be quotas such as"),
        ("TIELINE_ENGINE_VOLUME", "big", "must be a quantity such as 10Gi"),
    ],
)
def test_settings_that_cannot_be_used_stop_the_start(name: str, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} {words}"):
        Config.from_environment(REQUIRED | {name: text})
