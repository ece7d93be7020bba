"""Who may create versions or deploy cannot say that somebody else did it: the admission policies."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.integration.policies.test_references_on_a_cluster import Someone, resource
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def place(kubectl: Kubectl, policies_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def editor(kubectl: Kubectl, place: Organisation) -> Someone:
    return Someone(kubectl, place.namespace, role="tieline-editor").may("get", "configmaps")


def created(who: Someone, author: str | None) -> str:
    """What the API server says to a version by ``author``; nothing where it takes it."""
    spec = {"projectRef": {"name": "orders"}, "digest": "0" * 64, "configMaps": [{"name": "files"}]}
    if author is not None:
        spec["createdBy"] = author
    return who.tries("create", resource("ProjectVersion", spec, new_id().lower()))


@pytest.mark.parametrize("author", ["somebody-else", "system:serviceaccount:tieline-system:tieline-api"])
def test_nobody_writes_the_name_of_another(editor: Someone, author: str) -> None:
    told = created(editor, author)
    assert "must be your own name" in told
    assert editor.name in told


def test_a_version_without_an_author_or_by_its_author_is_taken(editor: Someone) -> None:
    assert created(editor, None) == ""
    assert created(editor, editor.name) == ""


def deployed(who: Someone, name: str, author: str, note: str = "1") -> str:
    """What the API server says to a deploy by ``author``; nothing where it takes it."""
    noted = {"id": note, "version": "orders-1", "by": author}
    environments = [{"name": "production", "version": "orders-1", "deployNote": noted}]
    return who.tries("apply", resource("Project", {"name": name, "environments": environments}, name))


def test_nobody_deploys_in_the_name_of_another(editor: Someone) -> None:
    told = deployed(editor, "orders", "somebody-else")
    assert "must be your own name" in told
    assert editor.name in told
    assert deployed(editor, "orders", editor.name) == ""


def test_the_note_of_another_may_stay_and_not_change(
    kubectl: Kubectl, place: Organisation, editor: Someone
) -> None:
    noted = {"id": "1", "version": "orders-1", "by": "somebody-else"}
    environments = [{"name": "production", "version": "orders-1", "deployNote": noted}]
    found = resource("Project", {"name": "kept", "environments": environments}, "kept")
    kubectl("apply", "-f", "-", namespace=place.namespace, stdin=json.dumps(found))
    assert deployed(editor, "kept", "somebody-else") == ""
    assert "must be your own name" in deployed(editor, "kept", "somebody-else", note="2")
