"""Loaded by schemathesis: ids in positive bodies are of things that are there, which no random body would hit."""

import json
import os
from typing import Any

import schemathesis
from schemathesis.generation import GenerationMode

from tieline_core.identity.ids import parse_id

SEEDS: dict[str, str] = json.loads(os.environ.get("TIELINE_SEEDS", "{}"))
"""One thing of each kind that the test has made, and that nothing deletes."""
MADE = set(SEEDS.values())
TAKEN = {
    "createConnectionTemplate": ("systemId", "environmentId"),
    "createConnection": ("connectionTemplateId",),
    "activateUser": ("userId", "environmentId"),
}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Ids that came by a link stay; others become those of the seeds."""
    identifier = case.operation.definition.raw.get("operationId")
    body = case.body if isinstance(case.body, dict) else {}
    if identifier == "createConnectionTemplate" and parse_id(str(body.get("environmentId"))):
        # The project is the seed's; a link may have brought another project's environment.
        body["environmentId"] = SEEDS["environmentId"]
    if identifier == "createConnection" and isinstance(body.get("connection"), dict):
        # A user's connection goes with the user, whom another step may delete.
        body["connection"].pop("externalId", None)
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    for field in TAKEN.get(identifier, ()):
        if case.body.get(field) not in MADE:
            case.body[field] = SEEDS[field]
    if identifier == "activateUser":
        case.body["connections"] = []
    elif identifier == "createConnection":
        case.body["connection"]["credentials"] = []


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Notes what was made."""
    if case.method == "POST" and response.status_code in (200, 201):
        body = response.json()
        MADE.update(value for value in (body.get("id"), body.get("connectionTemplateId")) if value)
