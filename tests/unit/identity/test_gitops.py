"""What applies an object, by what the tools of GitOps leave in it."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_core.identity.gitops import applied_by, repository_of

TRACKING = "argocd.argoproj.io/tracking-id"
INSTANCE = "argocd.argoproj.io/instance"
FLUX = "kustomize.toolkit.fluxcd.io"


@pytest.mark.parametrize(
    ("metadata", "tool"),
    [
        ({}, ""),
        ({"annotations": {TRACKING: "shop:tieline.dev/Project:a/b"}}, 'Argo CD (Application "shop")'),
        ({"annotations": {TRACKING: "\x1b\n"}, "labels": {INSTANCE: "shop"}}, 'Argo CD (Application "shop")'),
        ({"annotations": {TRACKING: ":x"}}, ""),
        (
            {"labels": {f"{FLUX}/name": "apps", f"{FLUX}/namespace": "flux"}},
            'Flux (Kustomization "flux/apps")',
        ),
    ],
)
def test_the_tool_that_applies_an_object_is_named(metadata: dict[str, Any], tool: str) -> None:
    assert applied_by({"metadata": metadata}) == tool


def test_what_anybody_can_have_written_is_short_and_can_be_read() -> None:
    found = applied_by({"metadata": {"annotations": {TRACKING: "shop\x1b[31m\u202e" + "x" * 200_000}}})
    assert len(found) < 300
    assert found.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "https://bot:s3cret@git.example:8443/shop.git?token=s3cret#s3cret",
            "https://git.example:8443/shop.git",
        ),
        ("ssh://git@git.example/shop", "ssh://git.example/shop"),
        ("git@git.example:acme/shop.git", "git@git.example:acme/shop.git"),
        ("oci://registry.example/shop", "oci://registry.example/shop"),
        ("javascript:alert(1)", ""),
        ("https:///shop", ""),
        ("https://[", ""),
        ("https://git.example/\u202egnp", ""),
        (f"https://git.example/{'x' * 2048}", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_a_repository_is_named_without_credentials(text: object, shown: str) -> None:
    assert repository_of(text) == shown
