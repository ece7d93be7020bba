"""Checks of the block ``emulator`` of an entry."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tieline.emulator.facts import ProviderFacts
from tieline.emulator.paging import matching


def findings(content: Mapping[str, Any]) -> list[str]:
    """What is wrong with the block, one sentence each."""
    try:
        facts = ProviderFacts.model_validate(content.get("emulator") or {})
    except ValidationError as error:
        return [f"emulator.{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
    system = content.get("system") or {}
    found = [
        f"emulator has a list at {one.path}, which system.lists does not describe"
        for one in (*facts.lists, *([facts.list_] if facts.list_ else []))
        if matching(system, one.path) is None
    ]
    if facts.check is not None and not system.get("check"):
        found.append("emulator has an answer to a check request, but system has no check")
    return found
