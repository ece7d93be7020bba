"""docs/credentials.md as data: its commands, manifests and requests, so that tests run what it says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.harness.kubectl import ROOT

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
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tieline")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(certificate.public_bytes(encoding))
    private = serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(encoding, private, serialization.NoEncryption()))
