"""What a System gets from a connector's version: base URL, variables, and the auth schemes that are complete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from pydantic import TypeAdapter, ValidationError

from tieline_core.objects import Json
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.fields import Url

MAX_SCHEMES = 20
MAX_BYTES = 256 * 1024
"""What schemes may have together: a status is a part of an object, and that has its limits."""

_URL: TypeAdapter[str] = TypeAdapter(Url)


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
