"""Settings that name an event engine which nothing reaches: for tests that have no use for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tieline_api.settings import Settings

URL = "nats://127.0.0.1:1"
_FILES = Path("/nonexistent/tieline-engine")
VARIABLES = {
    "TIELINE_ENGINE_URL": URL,
    "TIELINE_ENGINE_CREDENTIALS_FILE": str(_FILES / "engine.creds"),
    "TIELINE_ENGINE_SIGNER_FILE": str(_FILES / "signer.seed"),
}
"""Of operator, API and pods."""


def api_settings(**chosen: Any) -> Settings:
    """Settings of the API."""
    away = {
        "engine_url": (URL,),
        "engine_credentials_file": _FILES / "engine.creds",
        "engine_signer_file": _FILES / "signer.seed",
    }
    return Settings(**{**away, **chosen})
