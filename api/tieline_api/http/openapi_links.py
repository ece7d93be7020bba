"""Links of the OpenAPI document: what can be done next with what an operation answers."""

import re
from collections.abc import Iterable

from tieline_api.http.operation import Operation
from tieline_core.objects import Json

_PARAMETER = re.compile(r"\{(\w+)\}")


def parameters(operation: Operation) -> list[str]:
    """The names of the parameters in an operation's path."""
    return _PARAMETER.findall(operation.path)


def links(source: Operation, table: Iterable[Operation]) -> Json:
    """The links from the good answer of ``source``, by the id of the operation that they lead to.

    An operation on one thing leads to all others on it; one that makes something leads to what has a place for
    its id, in the path or in the body.
    """
    own = parameters(source)
    passed = {name: f"$request.path.{name}" for name in own}
    given = {name: f"$response.body#{pointer}" for name, pointer in source.link_sources.items()}
    about = set(given)
    if source.path.endswith("}") and source.method != "DELETE":
        about.add(own[-1])
    known = passed | given
    found: Json = {}
    for target in table:
        wanted = parameters(target)
        body = {field: name for field, name in target.link_parameters.items() if name in given}
        # What takes an id in its body may need others in its path, from elsewhere.
        led = bool(body) or (known.keys() >= set(wanted) and not about.isdisjoint(wanted))
        if target is source or not led:
            continue
        found[target.id] = {
            "operationId": target.id,
            "parameters": {name: known[name] for name in wanted if name in known},
            **({"requestBody": {field: known[name] for field, name in body.items()}} if body else {}),
        }
    return found
