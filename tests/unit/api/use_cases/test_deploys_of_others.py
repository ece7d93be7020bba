"""Deploys to what Git or kubectl manages: the answer says who does, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.cluster.files_manager import files_manager, remember_files_manager
from tieline_api.errors import ApiError
from tieline_api.use_cases.project_files_input import set_files
from tieline_api.views.project_lookup import set_environment
from tieline_core.kubernetes.informer import strip_managed_fields

FLUX = {
    "labels": {
        "kustomize.toolkit.fluxcd.io/name": "apps",
        "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    }
}
HELM = {"labels": {"helm.toolkit.fluxcd.io/name": "acme"}}
ARGO = {"annotations": {"argocd.argoproj.io/tracking-id": "acme-apps:tieline.dev/Project:acme/order-sync"}}


def project(manager: str, metadata: dict[str, Any], *, subresource: str = "") -> dict[str, Any]:
    fields = {
        "f:spec": {
            "f:environments": {'k:{"name":"production"}': {".": {}, "f:name": {}, "f:version": {}}},
            "f:source": {"f:configMaps": {'k:{"name":"code"}': {".": {}, "f:name": {}}}},
        }
    }
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": fields, "subresource": subresource}
    return {
        "metadata": {"name": "order-sync", "managedFields": [entry], **metadata},
        "spec": {
            "environments": [{"name": "production", "version": "latest"}],
            "source": {"configMaps": [{"name": "code"}]},
        },
    }


CASES = [
    ("kustomize-controller", FLUX, 'Flux (Kustomization "flux-system/apps"): commit'),
    ("helm-controller", HELM, 'Flux (HelmRelease "acme"): commit'),
    ("argocd-controller", ARGO, 'Argo CD (Application "acme-apps"): commit'),
    ("argocd-controller", {}, "Argo CD: commit"),
    ("kubectl-client-side-apply", {}, 'kubectl ("kubectl-client-side-apply"): change'),
    ("terraform", {}, '"terraform": change'),
]


@pytest.mark.parametrize(("manager", "metadata", "words"), CASES)
def test_a_deploy_says_which_source_owns_the_version(
    manager: str, metadata: dict[str, Any], words: str
) -> None:
    with pytest.raises(ApiError) as refused:
        set_environment(project(manager, metadata), {"spec": {}}, "production", version="v2", suspended=False)
    assert refused.value.status == 409
    assert refused.value.message.startswith(
        f'The version of the environment "production" is managed by {words}'
    )
    assert refused.value.extra == {"managers": [manager]}


@pytest.mark.parametrize(("manager", "metadata", "words"), CASES)
def test_a_deploy_of_files_says_which_source_owns_them(
    manager: str, metadata: dict[str, Any], words: str
) -> None:
    with pytest.raises(ApiError) as refused:
        set_files(project(manager, metadata), {"spec": {}}, references=[{"name": "other"}], labels={})
    assert refused.value.message.startswith(f'The file source "code" is managed by {words}')


@pytest.mark.parametrize(("manager", "metadata", "words"), CASES)
def test_a_project_says_who_manages_its_files(manager: str, metadata: dict[str, Any], words: str) -> None:
    found = files_manager(project(manager, metadata))
    assert found is not None
    assert f"{found.manager}: {found.advice}".startswith(words)
    assert found.path == "spec.source.configMaps[name=code]"
    assert files_manager(strip_managed_fields(remember_files_manager(project(manager, metadata)))) == found


def test_what_an_annotation_says_of_the_files_does_not_count() -> None:
    forged = {"annotations": {"tieline.dev/files-manager": "{}"}}
    cached = strip_managed_fields(remember_files_manager(project("tieline-api", forged)))
    assert files_manager(cached) is None
    assert files_manager(strip_managed_fields(remember_files_manager(project("tieline-api", {})))) is None


def test_a_project_says_which_folder_of_a_source_its_files_are_of() -> None:
    live = project("tieline-api", {})
    assert files_manager(live) is None
    live["spec"]["source"] = {"sourceRef": {"kind": "GitRepository", "name": "code", "path": "apps/orders"}}
    url = "https://git.example/acme/shop"
    live["status"] = {"source": {"revision": "main@sha1:6d3c", "repository": url}}
    found = files_manager(live)
    assert found is not None
    assert (found.manager, found.path, found.revision, found.repository) == (
        'Flux (GitRepository "code")',
        "apps/orders",
        "main@sha1:6d3c",
        url,
    )


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        ("https://bot:s3cret@git.example/shop.git", "https://git.example/shop.git"),
        ("javascript:alert(1)", None),
        ("https://[", None),
    ],
)
def test_a_project_says_which_repository_an_annotation_names(annotation: str, shown: str | None) -> None:
    annotations = {**ARGO["annotations"], "tieline.dev/source-repository": annotation}
    found = files_manager(project("argocd-controller", {"annotations": annotations}))
    assert found is not None
    assert found.repository == shown


def test_files_that_flux_fetches_are_committed() -> None:
    live = project("terraform", {})
    live["spec"]["source"] = {"sourceRef": {"kind": "GitRepository", "name": "code"}}
    with pytest.raises(ApiError, match=r'managed by Flux \(GitRepository "code"\): commit'):
        set_files(live, {"spec": {}}, references=[], labels={})


def test_what_is_ours_or_stays_the_same_is_set() -> None:
    mine: dict[str, Any] = {"spec": {}}
    set_environment(project("tieline-api", {}), mine, "production", version="v2", suspended=False)
    assert mine["spec"]["environments"] == [{"name": "production", "version": "v2", "suspended": False}]
    set_environment(project("kustomize-controller", FLUX), {"spec": {}}, "production", version="latest")
