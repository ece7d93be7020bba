"""docs/credentials.md as data: its commands, manifests and requests, so that tests run what it says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.harness.cluster.kubectl import ROOT
from tests.harness.identity.certificate_authority import Authority, pem

_BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Page:
    """What the page's code blocks hold."""

    commands: list[str]
    system: dict[str, Any]
    connection: dict[str, Any]
    grant: dict[str, Any]
    items: list[dict[str, Any]]
    """Credentials as items of a Connection."""
    requests: list[dict[str, Any]]
    """Credentials as REST takes them."""


def read_page() -> Page:
    """The page as it is in the repository."""
    text = (ROOT / "docs" / "credentials.md").read_text(encoding="utf-8")
    blocks = [(kind, mark, body) for kind, mark, body in _BLOCK.findall(text)]
    yamls = [(mark, yaml.safe_load(body)) for kind, mark, body in blocks if kind == "yaml"]
    by_kind = {found["kind"]: found for _, found in yamls if isinstance(found, dict)}
    return Page(
        commands=[body for kind, _, body in blocks if kind == "sh"],
        system=by_kind["System"],
        connection=by_kind["Connection"],
        grant=by_kind["CredentialGrant"],
        items=[item for _, found in yamls if isinstance(found, list) for item in found],
        requests=[json.loads(body) for kind, _, body in blocks if kind == "json"],
    )


def write_pair(folder: Path) -> None:
    """``tls.crt`` and ``tls.key``, which the page's commands read."""
    certificate, key = Authority().issue("tieline")
    (folder / "tls.crt").write_text(certificate)
    (folder / "tls.key").write_text(pem(key))
