"""``tieline env config`` changes an environment's own variables and leaves the project's alone."""

import pytest

from tieline.cli.exit_codes import UsageError
from tieline.cli.remote.environment_variables import changed_variables, given_variables

THERE = {
    "config": {
        "env": [
            {"name": "REGION", "value": "eu", "inherited": True},
            {"name": "LEVEL", "value": "info"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ]
    }
}


def test_variables_are_set_and_removed_among_the_environments_own() -> None:
    given = given_variables(["LEVEL=debug=all", "EMPTY="], ["KEY=api/value"])
    assert changed_variables(THERE, given, ["PASSWORD"]) == [
        {"name": "LEVEL", "value": "debug=all"},
        {"name": "EMPTY", "value": ""},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "value"}}},
    ]


@pytest.mark.parametrize(
    ("values", "secrets"),
    [(["LEVEL"], []), (["=x"], []), ([], ["KEY=api"]), ([], ["KEY=/k"]), (["A=1"], ["A=b/c"])],
)
def test_what_cannot_be_read_is_said(values: list[str], secrets: list[str]) -> None:
    with pytest.raises(UsageError):
        given_variables(values, secrets)


@pytest.mark.parametrize("unset", [["REGION"], ["NOWHERE"], ["LEVEL"]])
def test_what_is_not_the_environments_own_or_set_at_once_is_not_removed(unset: list[str]) -> None:
    with pytest.raises(UsageError, match=unset[0]):
        changed_variables(THERE, given_variables(["LEVEL=debug"], []), unset)
