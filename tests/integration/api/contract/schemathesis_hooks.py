"""Loaded by schemathesis: leaves out bad requests that are accepted on purpose.

Where the test gives seeds, ids in positive bodies are of things that are there, which no random body would hit.
"""

import json
import os
from typing import Any

import schemathesis
from schemathesis.generation import GenerationMode

from tieline_api.schemas.auth_schemes import SUB_OBJECTS
from tieline_api.schemas.projects import MAX_WAIT_SECONDS
from tieline_core.identity.ids import new_id, parse_id

SEEDS: dict[str, str] = json.loads(os.environ.get("TIELINE_SEEDS", "{}"))
"""One thing of each kind that the test has made, and that nothing deletes."""
KEPT = frozenset(SEEDS.values())
MADE = set(KEPT)
TAKEN = {
    "createConnectionTemplate": ("systemId", "environmentId"),
    "createConnection": ("connectionTemplateId",),
    "activateUser": ("userId", "environmentId"),
}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Ids that came by a link stay; others become those of the seeds, which nothing deletes."""
    _wait_no_longer(case.query)
    if not SEEDS:
        return
    identifier = case.operation.definition.raw.get("operationId")
    if case.method == "DELETE":
        for name, value in (case.path_parameters or {}).items():
            # Links and chance lead to the seeds too, and every later scenario needs them.
            if value in KEPT:
                case.path_parameters[name] = new_id()
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


def _wait_no_longer(query: Any) -> None:
    """An answer that may take minutes would count as none."""
    try:
        if 1 < float(query["wait"]) <= MAX_WAIT_SECONDS:
            query["wait"] = 1
    except (KeyError, TypeError, ValueError):
        return


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leaves out bad requests that are accepted on purpose, and that JSON Schema cannot say.

    A query parameter without a value counts as absent. Of an auth scheme only the sub-object that its type names has
    a meaning; the others may hold anything.
    """
    if case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE:
        return True
    query = case.query if isinstance(case.query, dict) else {}
    if any(value in ("", [], [""]) for value in query.values()):
        return False
    return not any(_has_foreign_sub_object(scheme) for scheme in _auth_schemes(case.body))


def _auth_schemes(body: Any) -> list[Any]:
    if not isinstance(body, dict):
        return []
    many = body.get("authSchemeConfigs")
    return [body, body.get("authSchemeConfig"), *(many if isinstance(many, list) else [])]


def _has_foreign_sub_object(scheme: Any) -> bool:
    own = scheme.get("type") if isinstance(scheme, dict) else None
    if not isinstance(own, str) or own not in SUB_OBJECTS:
        return False
    return any(scheme.get(name) is not None for kind, name in SUB_OBJECTS.items() if kind != own)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Notes what was made."""
    if case.method == "POST" and response.status_code in (200, 201):
        body = response.json()
        MADE.update(value for value in (body.get("id"), body.get("connectionTemplateId")) if value)
