"""Systems that a connector's version gives base URL, variables and auth schemes, once or for good.

For good: of a System that refers to a connector, what the spec leaves out comes from the connector's version.
The operator writes what the version says into the status (``fromConnector``), never into the spec. Whoever
reads Systems reads them ``filled``: what the spec says wins, for auth schemes by their id.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from pydantic import TypeAdapter, ValidationError

from tieline_core.objects import Json, ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.fields import Url

MAX_SCHEMES = 20
MAX_BYTES = 256 * 1024
"""What schemes may have together: a status is a part of an object, and that has its limits."""
_URL: TypeAdapter[str] = TypeAdapter(Url)
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


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The part of a System that a connector's version gives."""

    base_url: str
    """Perhaps with variables in curly braces; empty when the description names none."""
    domain: str
    """The base URL's host; empty when that is a variable."""
    variables: list[Json]
    """Variables of the base URL with their defaults: {name, value}."""
    auth_schemes: list[Json]
    """Auth schemes as a System's spec has them."""
    incomplete: dict[str, str]
    """Schemes that are not among them, by id, with a sentence that says why."""


def generated(head: Mapping[str, Any], *, base_url: str = "") -> Generated:
    """What a version with this summary gives; ``base_url`` is the connector's own, which counts."""
    url = base_url or head.get("baseUrl") or ""
    try:
        _URL.validate_python(url)
    except ValidationError:
        url = ""
    schemes: list[Json] = []
    incomplete: dict[str, str] = {}
    room = MAX_BYTES
    for found in head.get("authSchemes") or ():
        scheme = {key: value for key, value in found.items() if key != "validationMessages"}
        problem = _problem(scheme)
        room -= len(orjson.dumps(scheme))
        if problem is None and (len(schemes) >= MAX_SCHEMES or room < 0):
            problem = "it is one too many for a system"
        if problem is None:
            schemes.append(scheme)
        else:
            incomplete[scheme["id"]] = (
                f"The connector's auth scheme cannot be used as it is: {problem}; "
                "add the whole scheme to the system under this id"
            )
    return Generated(
        base_url=url,
        domain=_host(url),
        variables=[dict(item) for item in head.get("variables") or ()],
        auth_schemes=schemes,
        incomplete=incomplete,
    )


def _problem(scheme: Json) -> str | None:
    try:
        AuthSchemeConfig.model_validate(scheme)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        return f"{field} is missing" if first["type"] == "missing" else f"{field}: {first['msg']}"
    return None


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return "" if "{" in host or "}" in host else host[:253]
