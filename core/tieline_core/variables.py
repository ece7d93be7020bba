"""The variables that code runs with. What checks them is ``variables_checker``."""

from collections.abc import Mapping
from typing import Any


def in_effect(activation: Mapping[str, Any], *, fit: bool) -> dict[str, Any]:
    """The variables that code runs with for an Activation (the object, as Kubernetes has it).

    Those of its spec when they ``fit`` the project's schema, and else the last ones that did, which the operator
    keeps in its status. So neither a change of the schema nor one of the values breaks what runs.
    """
    if fit:
        return dict(activation["spec"].get("variables") or {})
    return dict((activation.get("status") or {}).get("lastValidVariables") or {})
