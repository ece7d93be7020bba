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
from tieline_protocol.oauth.kept import NOTHING, Kept
from tieline_protocol.url_inputs import (
    ANY_VALUE,
    MissingValueError,
    UrlInput,
    UrlInputError,
    filled_url,
    pattern_problem,
    template_problem,
    url_inputs,
    variables_of,
)

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


def variables_in_effect(connection: ObjectView, system: ObjectView, kept: Kept = NOTHING) -> dict[str, str]:
    """The variables of a connection's URLs, from both specs and what was kept of the provider's answers.

    The connection's own count, then those that were kept, then the system's. A kept variable with overrides wins over
    all.
    """
    return {
        **(system.get("variables") or {}),
        **kept.variables_over(connection.get("variables") or {}),
    }


def checked_variables(system: ObjectView, kept: Kept = NOTHING) -> dict[str, UrlInput]:
    """What the values of people and providers may be: the System's inputs, and the variables that were kept."""
    return {**dict.fromkeys(kept.variables, UrlInput(pattern=ANY_VALUE)), **url_inputs(system)}


def connection_base_url(connection: ObjectView, system: ObjectView, kept: Kept = NOTHING) -> str:
    """The base URL of a connection, from both specs and what was kept of the provider's answers.

    The connection's own counts, then the one that was kept; else the system's, in which parts in curly braces are
    filled with the variables in effect. A part that has no value, or one that its input does not allow, stays as it is:
    requests cannot be sent to such a URL.
    """
    if kept.base_url and "baseUrl" in kept.overrides:
        return kept.base_url
    own: str = connection.get("baseUrl") or kept.base_url
    if own:
        return own
    template = _with_plain_values(connection, system, kept)
    try:
        values = variables_in_effect(connection, system, kept)
        return filled_url(template, values, checked_variables(system, kept))
    except UrlInputError:
        return template


def base_url_problem(connection: ObjectView, system: ObjectView, kept: Kept = NOTHING) -> str | None:
    """Why the inputs make no base URL of a connection, as a sentence; None where they do, or have no value yet."""
    checked, values = checked_variables(system, kept), variables_in_effect(connection, system, kept)
    for name, about in url_inputs(system).items():
        problem = about.value_problem(values[name]) if values.get(name) else None
        if problem:
            return f'The variable "{name}" {problem}'
    if not checked or connection.get("baseUrl") or kept.base_url:
        return None
    try:
        filled_url(_with_plain_values(connection, system, kept), values, checked)
    except MissingValueError:
        return None
    except UrlInputError as error:
        return f"The base URL cannot be made: {error}"
    return None


def input_problems(system: ObjectView) -> list[str]:
    """What is wrong with the inputs in a System's spec, as sentences."""
    inputs, defaults = url_inputs(system), system.get("variables") or {}
    found = []
    for name, about in inputs.items():
        if about.pattern and (problem := pattern_problem(about.pattern)):
            found.append(f'The pattern of the input "{name}" {problem}')
        elif defaults.get(name) and (problem := about.value_problem(defaults[name])):
            found.append(f'The default of the input "{name}" in variables {problem}')
    template = _with_plain_values({}, system)
    if inputs.keys() & set(variables_of(template)) and (problem := template_problem(template, inputs)):
        found.append(f"templateBaseUrl {problem}")
    return found


def missing_variables(connection: ObjectView, system: ObjectView, kept: Kept = NOTHING) -> list[str]:
    """The parts of a connection's base URL in curly braces that have no value."""
    if connection.get("baseUrl") or kept.base_url:
        return []
    values, checked = variables_in_effect(connection, system, kept), checked_variables(system, kept)
    names = placeholders_of(system.get("templateBaseUrl") or "")
    return [name for name in names if name not in values or (name in checked and not values[name])]


def placeholders_of(url: str) -> list[str]:
    """The names in curly braces in a base URL, each once. Descriptions have names that inputs cannot have.

    >>> placeholders_of("https://{api.host}/{version}")
    ['api.host', 'version']
    """
    return list(dict.fromkeys(_PLACEHOLDER.findall(url)))


def _with_plain_values(connection: ObjectView, system: ObjectView, kept: Kept = NOTHING) -> str:
    """The System's base URL with the values of all variables but those that are checked."""
    url: str = system.get("templateBaseUrl") or ""
    values, checked = variables_in_effect(connection, system, kept), checked_variables(system, kept)
    return _PLACEHOLDER.sub(
        lambda found: found[0] if found[1] in checked else values.get(found[1], found[0]), url
    )


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
