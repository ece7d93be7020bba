"""Systems that refer to a connector: what the spec leaves out comes from the connector's version.

The operator writes what the version says into the status (``fromConnector``), never into the spec. Whoever
reads Systems reads them ``filled``: what the spec says wins, for auth schemes by their id.
"""

import re

from tieline_core.objects import Json, ObjectView

_PLACEHOLDER = re.compile(r"\{([^{}]{1,256})\}")


def filled(obj: Json) -> Json:
    """The System ``obj`` (changed in place) with its connector's values where the spec has none."""
    found = (obj.get("status") or {}).get("fromConnector")
    spec = obj.get("spec")
    if not found or not spec or "connectorRef" not in spec:
        return obj
    for ours, theirs in (("templateBaseUrl", "baseUrl"), ("domain", "domain")):
        if not spec.get(ours) and found.get(theirs):
            spec[ours] = found[theirs]
    variables = {item["name"]: item["value"] for item in found.get("variables") or ()}
    if variables:
        spec["variables"] = {**variables, **(spec.get("variables") or {})}
    own = spec.get("authSchemeConfigs") or []
    known = {scheme["id"] for scheme in own}
    more = [scheme for scheme in found.get("authSchemeConfigs") or () if scheme["id"] not in known]
    if more:
        spec["authSchemeConfigs"] = [*own, *more]
    return obj


def is_from_connector(obj: ObjectView, scheme: str) -> bool:
    """Whether the System's connector brings an auth scheme of this id."""
    found = (obj.get("status") or {}).get("fromConnector") or {}
    return any(item["id"] == scheme for item in found.get("authSchemeConfigs") or ())


def connection_base_url(connection: ObjectView, system: ObjectView) -> str:
    """The base URL of a connection, from both specs.

    The connection's own counts; else the system's, in which parts in curly braces are filled with the
    connection's variables, or else with the system's. A part that has no value stays as it is.
    """
    url: str = connection.get("baseUrl") or system.get("templateBaseUrl") or ""
    if connection.get("baseUrl"):
        return url
    values = {**(system.get("variables") or {}), **(connection.get("variables") or {})}
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), url)


def missing_variables(connection: ObjectView, system: ObjectView) -> list[str]:
    """The parts of a connection's base URL in curly braces that have no value."""
    if connection.get("baseUrl"):
        return []
    return _PLACEHOLDER.findall(connection_base_url(connection, system))
