"""Roles by REST: nobody assigns more than they may do, and only roles of Tieline's to somebody in particular."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.api.use_cases.test_api_key_rights import Rbac, caller
from tieline_api.auth.permissions import Permission, permissions_of
from tieline_api.errors import ApiError
from tieline_api.schemas.access import RoleBindingCreate
from tieline_api.use_cases.role_grants import check_grant, manifest
from tieline_api.views.access import is_by_rest


def body(role: str = "editor", kind: str = "User", name: str = "login:ann", **more: Any) -> RoleBindingCreate:
    return RoleBindingCreate.model_validate({"role": role, "subject": {"kind": kind, "name": name, **more}})


@pytest.mark.parametrize("role", ["viewer", "editor", "admin"])
async def test_whoever_may_do_as_much_assigns_a_role(role: str) -> None:
    access: Any = Rbac(ann=set(permissions_of(f"tieline-{role}")))
    await check_grant(access, caller("ann"), role, "acme")


@pytest.mark.parametrize("power", permissions_of("tieline-admin"), ids=str)
async def test_whoever_lacks_one_right_of_a_role_does_not(power: Permission) -> None:
    access: Any = Rbac(ann=set(permissions_of("tieline-admin")) - {power})
    with pytest.raises(ApiError) as refused:
        await check_grant(access, caller("ann"), "admin", "acme")
    assert refused.value.status == 403
    assert str(power) in str(refused.value.message)


def test_all_that_a_role_may_do_is_asked_for() -> None:
    viewer, editor, admin = (set(permissions_of(f"tieline-{role}")) for role in ("viewer", "editor", "admin"))
    assert viewer < editor < admin
    assert Permission("expose", "connections") in admin - editor
    assert Permission("create", "rolebindings") in admin - editor
    assert Permission("delete", "projects") in editor - viewer


async def test_an_error_does_not_list_a_whole_role() -> None:
    access: Any = Rbac()
    with pytest.raises(ApiError) as refused:
        await check_grant(access, caller("ann"), "admin", "acme")
    assert "and more)" in str(refused.value.message)
    assert len(refused.value.message) < 400


def test_the_same_grant_has_the_same_name_and_any_other_another() -> None:
    grants = [
        body(),
        body(role="viewer"),
        body(name="login:bob"),
        body(kind="Group"),
        body(kind="ServiceAccount", name="ci"),
        body(kind="ServiceAccount", name="ci", namespace="builds"),
    ]
    names = [manifest(one, "acme")["metadata"]["name"] for one in grants]
    assert len(set(names)) == len(names)
    assert manifest(body(), "acme") == manifest(body(), "acme")
    of_machine = manifest(grants[4], "acme")
    assert of_machine["subjects"] == [{"kind": "ServiceAccount", "name": "ci", "namespace": "acme"}]
    assert of_machine["roleRef"]["name"] == "tieline-editor"
    assert is_by_rest(of_machine)
    assert not is_by_rest({"metadata": {"name": "ops"}})


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "Group", "name": "system:authenticated"},
        {"kind": "User", "name": "system:anonymous"},
        {"kind": "User", "name": ""},
        {"kind": "User", "name": "two words"},
        {"kind": "User", "name": "x" * 254},
        {"kind": "User", "name": "ann", "namespace": "acme"},
        {"kind": "ServiceAccount", "name": "login:ann"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "No"},
        {"kind": "Role", "name": "ann"},
    ],
)
def test_what_is_nobody_in_particular_is_refused(subject: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        RoleBindingCreate.model_validate({"role": "viewer", "subject": subject})
