"""The variables that the tables of operator and API list are those that their settings read."""

import re
from types import ModuleType

import pytest

from tests.harness.processes import engine_away
from tieline_api import settings as api_settings
from tieline_core.environment_settings import EnvironmentSettings
from tieline_operator import config as operator_config

COMPOSED = {"TIELINE_EGRESS", "TIELINE_EXPOSURE"}
EGRESS = {"TIELINE_EGRESS_ALLOWED", "TIELINE_EGRESS_DENIED"}


@pytest.mark.parametrize(
    ("module", "settings"),
    [(operator_config, operator_config.Config), (api_settings, api_settings.Settings)],
)
def test_the_table_lists_what_is_read(module: ModuleType, settings: type[EnvironmentSettings]) -> None:
    read = {
        str(field.validation_alias or f"TIELINE_{name.upper()}")
        for name, field in settings.model_fields.items()
    }
    listed = re.findall(r"^\| (TIELINE_[A-Z_]+) \|", module.__doc__ or "", re.MULTILINE)
    assert set(listed) == read - COMPOSED | EGRESS


@pytest.mark.parametrize("name", ["TIELINE_NAMESPACE", "TIELINE_SIZES", "tieline_rate_limit", "RATE_LIMIT"])
def test_other_variables_are_not_read(name: str) -> None:
    told = {**engine_away.VARIABLES, name: "7"}
    assert api_settings.Settings.from_environment(told) == engine_away.api_settings()
