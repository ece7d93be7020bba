"""Requests for operations from what agents give: nothing that the description does not have is sent."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from tieline_api import errors
from tieline_api.connection_requests.client import SystemRequest
from tieline_api.connection_requests.forwarding import checked_path, sent_headers
from tieline_protocol.openapi_parameters import (
    FORM,
    NO_PARAMETERS,
    is_json,
    json_of,
    listed,
    query_pairs,
    repeated,
    unknown_names,
)

SECONDS = 30.0
MAX_REQUEST = 256 * 1024
"""Bytes of a body."""


_NO_SCHEMAS: Mapping[str, Any] = {}


def request_of(
    action: Mapping[str, Any],
    given: Mapping[str, Any],
    body: Any,
    schemas: Mapping[str, Any] = _NO_SCHEMAS,
) -> SystemRequest:
    """The request for an operation. ApiError 422 names what is missing, unknown or cannot be sent.

    ``action`` is the operation as a connector's version has it; ``given`` are its parameters by name; ``schemas`` are
    those that the parameters refer to, by reference.
    """
    with plain_json():
        return _request(action, given, body, schemas)


@contextmanager
def plain_json() -> Iterator[None]:
    """ApiError 422 for what cannot be sent: half a pair of UTF-16, no number, or lists within lists without end."""
    try:
        yield
    except (ValueError, RecursionError):
        raise errors.ApiError(
            422, "invalid", "The parameters and the body must be plain JSON: a part of them cannot be sent"
        ) from None


def _request(
    action: Mapping[str, Any], given: Mapping[str, Any], body: Any, schemas: Mapping[str, Any]
) -> SystemRequest:
    parameters = [one for one in action["parameters"] if one["name"].lower() not in NO_PARAMETERS]
    _check(parameters, given)
    path, query, headers = action["path"], list[tuple[str, str]](), dict[str, str]()
    for parameter in parameters:
        name, value = parameter["name"], given.get(parameter["name"])
        if value is None:
            continue
        match parameter["in"]:
            case "path":
                path = path.replace(f"{{{name}}}", quote(path_segment(name, value), safe=""))
            case "query":
                query += _query(parameter, value, schemas)
            case "header":
                headers[name] = _header(name, listed(value))
    content, media_type = _body(action, body)
    if media_type:
        headers["Content-Type"] = media_type
    return SystemRequest(
        method=action["method"].upper(),
        path=checked_path(f"{path}?{urlencode(query)}" if query else path),
        headers=sent_headers(headers, ()),
        body=content,
        seconds=SECONDS,
    )


def _check(parameters: list[Any], given: Mapping[str, Any]) -> None:
    known = {
        one["name"]: bool(one["required"]) or one["in"] == "path"
        for one in parameters
        if one["in"] in ("path", "query", "header")
    }
    check_names(given, known)


def check_names(given: Mapping[str, Any], known: Mapping[str, bool]) -> None:
    """ApiError 422 for parameters that there are not, or that are missing. ``known`` says which are needed."""
    wrong = [
        errors.FieldError(f"parameters.{name[:64]}", "is no parameter: leave it out")
        for name in given
        if name not in known
    ]
    wrong += [
        errors.FieldError(f"parameters.{name}", "is needed")
        for name, is_needed in known.items()
        if is_needed and given.get(name) is None
    ]
    if wrong:
        there = ", ".join(known) or "none"
        raise errors.ApiError(422, "invalid", f"The parameters do not fit (there are: {there})", fields=wrong)


def path_segment(name: str, value: Any) -> str:
    """A value in the path: one part of it, whatever servers decode. ApiError 422 for one that is none."""
    text = listed(value)
    if text in ("", ".", "..") or "/" in text or "\\" in text:
        raise errors.invalid(f"parameters.{name}", "must not be empty, and must have no slash and be no dots")
    if not text.isprintable():
        raise errors.invalid(f"parameters.{name}", "must be printable")
    return text


def _header(name: str, text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise errors.invalid(f"parameters.{name}", "must be printable ASCII")
    return text


def _query(parameter: Mapping[str, Any], value: Any, schemas: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and values of a parameter. ApiError 422 for an object that the parameter does not take."""
    name, style = parameter["name"], parameter.get("style") or "form"
    explode = parameter.get("explode", style in ("form", "deepObject"))
    schema = parameter.get("schema") or {"type": parameter.get("type")}
    unknown = unknown_names(
        value, schema, lambda node: _resolved(node, schemas), style=style, explode=explode
    )
    if unknown is None:
        raise errors.invalid(f"parameters.{name}", "must not be an object")
    if unknown:
        raise errors.invalid(f"parameters.{name}", f"has no property {unknown[0][:64]!r}: leave it out")
    return query_pairs(name, value, style=style, explode=explode)


def _resolved(node: Any, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its reference followed; empty where that leads nowhere or in circles."""
    for _ in range(len(schemas) + 1):
        if not isinstance(node, dict):
            return {}
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = schemas.get(reference)
    return {}


def form_pairs(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fields of a form, or parameters of a query that no description has, without those that are None."""
    return [pair for name, value in given.items() if value is not None for pair in repeated(name, value)]


def _body(action: Mapping[str, Any], body: Any) -> tuple[bytes, str]:
    """The body as it is sent, and its media type; both empty without one."""
    described = action.get("requestBody")
    if body is None:
        if described and described["required"]:
            raise errors.invalid("body", "is needed")
        return b"", ""
    if not described:
        raise errors.invalid("body", "must be left out: the operation has none")
    kinds = [kind for one in described["definitions"] for kind in one.get("mediaTypes") or ()]
    kind = next((one for one in kinds if is_json(one)), "" if kinds else "application/json")
    if kind:
        content = json_bytes(body)
    elif FORM in kinds and isinstance(body, dict):
        kind, content = FORM, urlencode(form_pairs(body)).encode()
    elif kinds[0].startswith("text/") and isinstance(body, str):
        kind, content = kinds[0], body.encode("utf-8", "replace")
    else:
        raise errors.invalid("body", f"cannot be sent as {kinds[0]}: agents send JSON, forms and texts")
    return bounded(content), kind


def bounded(content: bytes) -> bytes:
    """A body; ApiError 422 for one that is too long."""
    if len(content) > MAX_REQUEST:
        raise errors.invalid("body", f"must have at most {MAX_REQUEST >> 10} KiB")
    return content


def json_bytes(value: Any) -> bytes:
    """As JSON, whole numbers of any size included."""
    return json_of(value).encode()
