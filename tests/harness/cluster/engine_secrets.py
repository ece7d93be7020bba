"""The Secrets with which an engine starts, for tests that have no operator that makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.harness.cluster.kubectl import Kubectl
from tieline_core.engine.server_config import EngineConfig
from tieline_core.engine.trust import EngineTrust, new_encryption_key


def make_engine_secrets(kubectl: Kubectl, namespace: str, *, routes: Sequence[str] = ()) -> EngineTrust:
    """Makes them in the release's namespace; returns the keys that the engine trusts."""
    trust, now = EngineTrust(), datetime.now(UTC)
    config = EngineConfig(
        operator=trust.operator_jwt(now),
        system_account=trust.system.public_key,
        accounts=trust.accounts(now),
        storage="/data",
        encryption_key="$TIELINE_ENGINE_KEY",
        routes=routes,
    )
    values = {
        "tieline-engine-config": {"nats.conf": config.text(), "encryption-key": new_encryption_key()},
        "tieline-engine-api": {
            "engine.creds": trust.credentials("api", at=now),
            "signer.seed": trust.api.seed,
        },
    }
    for name, content in values.items():
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": content}
        kubectl("apply", "-f", "-", namespace=namespace, stdin=json.dumps(secret))
    return trust
