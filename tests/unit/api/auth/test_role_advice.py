"""A refusal names the roles that would help, as the manifests of ``deploy/`` define them, and no other role."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.harness.session import fast_yaml
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import ROLES, Permission, roles_granting
from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.handlers import OPERATIONS
from tieline_core.kubernetes import Resource
from tieline_core.resources.kinds import GROUP

DEPLOY = Path(__file__).parents[4] / "deploy"
MANIFESTS = (DEPLOY / "base/roles.yaml", DEPLOY / "helm/tieline/templates/roles.yaml")
PERMISSIONS = sorted({one for operation in OPERATIONS for one in operation.permissions}, key=str)


def _rules(manifest: Path) -> dict[str, list[dict[str, Any]]]:
    """The rules of each ClusterRole; lines that are templates of helm alone are left out."""
    lines = [line for line in manifest.read_text().splitlines() if not line.lstrip().startswith("{{")]
    return {one["metadata"]["name"]: one["rules"] for one in fast_yaml.load_all("\n".join(lines)) if one}


def _grants(rules: list[dict[str, Any]], permission: Permission) -> bool:
    return any(
        permission.group in rule["apiGroups"]
        and not {permission.resource, "*"}.isdisjoint(rule["resources"])
        and not {permission.verb, "*"}.isdisjoint(rule["verbs"])
        for rule in rules
    )


def _all_permissions(rules: dict[str, list[dict[str, Any]]]) -> Iterator[Permission]:
    """Every verb on every kind that a manifest or an operation names."""
    named = [rule for role in rules.values() for rule in role if GROUP in rule["apiGroups"]]
    kinds = {kind for rule in named for kind in rule["resources"]} | {one.resource for one in PERMISSIONS}
    verbs = {verb for rule in named for verb in rule["verbs"]} | {one.verb for one in PERMISSIONS}
    return (Permission(verb, kind) for verb, kind in product(sorted(verbs), sorted(kinds - {"*"})))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=["kustomize", "helm"])
def test_the_roles_named_are_those_whose_manifest_grants_it(manifest: Path) -> None:
    rules = _rules(manifest)
    assert rules.keys() == ROLES.keys()
    for permission in _all_permissions(rules):
        granting = [role for role in ROLES if _grants(rules[role], permission)]
        assert roles_granting([permission]) == granting, permission


def test_only_a_role_that_grants_everything_missing_is_named() -> None:
    missing = [Permission("create", "connections"), Permission("create", "systems")]
    assert roles_granting(missing) == ["tieline-admin"]


def test_no_role_is_named_for_what_none_grants() -> None:
    assert roles_granting([Permission("get", "secrets", group="")]) == []


class _Editor:
    """Kubernetes, where the caller has the role tieline-editor."""

    async def create(self, _resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        asked = review["spec"]["resourceAttributes"]
        granting = roles_granting([Permission(asked["verb"], asked["resource"], asked["group"])])
        return {"status": {"allowed": "tieline-editor" in granting}}


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
async def test_an_editor_is_not_advised_to_become_an_editor(verb: str) -> None:
    organisation = Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", namespace="acme")
    with pytest.raises(ApiError) as caught:
        await Access(_Editor()).check(  # type: ignore[arg-type]
            Caller(username="eve"), organisation, [Permission(verb, "systems")]
        )
    assert caught.value.status == 403
    assert "the role tieline-admin there" in caught.value.message
    assert "tieline-editor" not in caught.value.message
