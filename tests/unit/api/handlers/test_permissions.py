"""What operations ask for is what their answers show."""

import pytest

from tieline_api.auth.permissions import Permission
from tieline_api.handlers import OPERATIONS

VERSIONS = Permission("get", "projectversions")


@pytest.mark.parametrize("name", ["getVersionFiles", "diffVersions", "getRelease"])
def test_files_of_versions_are_for_those_who_may_read_versions(name: str) -> None:
    [operation] = [one for one in OPERATIONS if one.id == name]
    assert VERSIONS in operation.permissions


def test_roles_are_listed_by_those_who_may_list_them() -> None:
    [operation] = [one for one in OPERATIONS if one.id == "listRoleBindings"]
    assert operation.permissions == (Permission("list", "rolebindings"),)
