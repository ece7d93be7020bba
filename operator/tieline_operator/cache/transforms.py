"""Secrets as the operator's cache keeps them: who they are, whose they are, and facts about their values."""

from collections.abc import Mapping
from typing import Any

from tieline_core.credentials.validation.secret_facts import tokens_of, values_of
from tieline_core.oauth.token_secrets import holds_tokens

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences")


def strip_secret_values(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret without its values, which are dropped before anything keeps them."""
    return {
        "metadata": {key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]},
        "type": obj.get("type"),
        "values": values_of(obj.get("data") or {}),
        "tokens": tokens_of(obj) if holds_tokens(obj) else None,
    }
