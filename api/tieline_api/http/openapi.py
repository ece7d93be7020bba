"""The OpenAPI 3.1 document, from the table of operations."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tieline_api.auth.access import MEMBERSHIP
from tieline_api.auth.permissions import CHANGE_PROJECTS
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import ULID_PATTERN
from tieline_core.objects import Json

References = Mapping[tuple[Any, Any], Json]

_REFERENCE = "#/components/schemas/{model}"
_ALWAYS = (400, 401, 403, 404, 429, 503)
_ERRORS: Mapping[int, str] = {
    400: "The request cannot be read",
    401: "No token, or one that is not valid",
    403: "Not allowed",
    404: "No such thing in this organisation",
    409: "It conflicts with the current state, or another manager owns the field",
    412: "It was changed since it was read",
    413: "Too large",
    415: "Not JSON",
    422: "Well-formed, but invalid",
    429: "Too many requests",
    502: "The system, its token URL, or the environment, cannot be reached or does not answer",
    503: "Kubernetes or the event engine cannot be reached",
    504: "The environment, or the system, does not answer in time",
}
_IDS = {
    "organisation_id": "The organisation",
    "system_id": "The system",
    "connection_id": "The connection",
    "project_id": "The project",
    "template_id": "The connection template",
    "version_id": "The version",
    "environment_id": "The environment",
    "activation_id": "The activation",
    "connection_template_id": "The connection template",
    "connector_id": "The connector",
    "definition_id": "The definition",
    "run_id": "The run",
    "scheduler_id": "The schedule",
    "channel_id": "The notification channel",
    "notification_id": "The notification",
    "key_id": "The API key",
}
_ERROR_SCHEMA: Json = {
    "title": "Error",
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string", "description": "A stable word for programs"},
        "message": {"type": "string", "description": "What is wrong and what to do, for people"},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {
                    "field": {"type": "string", "description": "A path like credentials[0].credential.data"},
                    "message": {"type": "string"},
                },
            },
        },
        "details": {"type": "string", "description": "More about it, for people"},
    },
    "examples": [{"code": "not_found", "message": 'There is no system "01JD…" in this organisation'}],
}
_SECURITY: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the cluster or of a configured issuer: Authorization: Bearer (or JWT) "
        "and the token",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"},
}


def document(operations: Iterable[Operation], *, title: str, version: str) -> Json:
    """The OpenAPI document of ``operations``."""
    table = list(operations)
    schemas, references = _schemas(table)
    paths: dict[str, Json] = {}
    for operation in table:
        described = _operation(operation, references)
        if leading := links(operation, table):
            described["responses"][str(operation.success)]["links"] = leading
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    tags = list(dict.fromkeys(operation.tag for operation in table))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": version,
            "description": "An integration platform that lives in Kubernetes. "
            "Ids are ULIDs, times are RFC 3339 in UTC.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in tags],
        "security": [{"bearer": []}, {"apiKey": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SECURITY},
    }


def _operation(operation: Operation, references: References) -> Json:
    result: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": _description(operation),
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation), *_conditions(operation)],
        "responses": _responses(operation, references),
    }
    if operation.body is not None:
        content: Json = {"schema": references[operation.body, "validation"]}
        if operation.example is not None:
            content["example"] = dict(operation.example)
        result["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"multipart/form-data": _multipart(content)}
            if operation.upload
            else {"application/json": content},
        }
    return result


def _multipart(metadata: Json) -> Json:
    """The part with the JSON, and the one with the file."""
    content: Json = {
        "schema": {
            "type": "object",
            "required": ["metadata", "file"],
            "properties": {
                "metadata": metadata["schema"],
                "file": {"type": "string", "contentMediaType": "application/octet-stream"},
            },
        },
        "encoding": {"metadata": {"contentType": "application/json"}},
    }
    if "example" in metadata:
        content["example"] = {"metadata": metadata["example"], "file": "openapi: 3.1.0 …"}
    return content


_BY_ENVIRONMENT = (
    f" `patch environments` on the Environment and `{MEMBERSHIP}` are enough instead of `{CHANGE_PROJECTS}`."
)


def _description(operation: Operation) -> str:
    does = " ".join((operation.handler.__doc__ or "").split())
    if not operation.permissions:
        return f"{does} Requires no permission."
    needs = " and ".join(f"`{permission}`" for permission in operation.permissions)
    return (
        f"{does} Requires the Kubernetes permission {needs} "
        "(API group tieline.dev) in the organisation's namespace."
        f"{_BY_ENVIRONMENT if operation.by_environment else ''}"
    )


def _path_parameters(operation: Operation) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": "Any path" if operation.proxies and name not in _IDS else _IDS.get(name, "The id"),
            "schema": {"type": "string", "pattern": ULID_PATTERN} if name in _IDS else {"type": "string"},
        }
        for name in parameters(operation)
    ]


def _query_parameters(operation: Operation) -> list[Json]:
    if operation.query is None:
        return []
    schema = operation.query.model_json_schema(by_alias=True)
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": found.get("description", ""),
            "schema": _tidy(_plain({key: value for key, value in found.items() if key != "description"})),
        }
        for name, found in schema["properties"].items()
    ]


def _plain(schema: Json) -> Json:
    """A parameter is absent rather than null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema


def _conditions(operation: Operation) -> list[Json]:
    if not operation.conditional:
        return []
    reading = operation.method == "GET"
    return [
        {
            "name": "If-None-Match" if reading else "If-Match",
            "in": "header",
            "description": "An ETag: answers 304 when nothing changed"
            if reading
            else "An ETag: answers 412 when it was changed since",
            "schema": {"type": "string"},
        }
    ]


def _responses(operation: Operation, references: References) -> Json:
    good: Json = {"description": "Done" if operation.success == 204 else operation.summary}
    if operation.response is not None:
        content: Json = {"schema": references[operation.response, "serialization"]}
        if operation.response_example is not None:
            content["example"] = operation.response_example
        good["content"] = {"text/event-stream" if operation.streams else "application/json": content}
    responses: Json = {str(operation.success): good}
    if operation.proxies:
        responses["default"] = {"description": "What the system answers, with X-Tieline-Upstream-Status"}
    statuses = {*_ALWAYS, *operation.errors}
    if not operation.permissions:
        statuses -= {403, 404} - set(operation.errors)
    if operation.body is not None:
        statuses |= {413, 415, 422}
    if operation.query is not None:
        statuses.add(422)
    if operation.method != "GET":
        statuses.add(409)
    if operation.conditional:
        if operation.method == "GET":
            responses["304"] = {"description": "Not changed"}
        else:
            statuses.add(412)
    for status in sorted(statuses):
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Error")}}},
        }
    return responses


def _schemas(operations: Iterable[Operation]) -> tuple[Json, References]:
    """The schemas of all bodies, and how to refer to each model as a request's or an answer's."""
    wanted: dict[tuple[type[BaseModel], Any], None] = {}
    for operation in operations:
        if operation.body is not None:
            wanted[operation.body, "validation"] = None
        if operation.response is not None:
            wanted[operation.response, "serialization"] = None
    references, generated = models_json_schema(
        list(wanted), by_alias=True, ref_template="#/components/schemas/{model}"
    )
    schemas: Json = {
        _named(name): {"title": _named(name), **_tidy(schema)} for name, schema in generated["$defs"].items()
    }
    schemas["Error"] = _ERROR_SCHEMA
    return dict(sorted(schemas.items())), {key: _tidy(reference) for key, reference in references.items()}


def _named(text: str) -> str:
    """The name of a schema: where requests take more than answers have, the answer's is the plain one."""
    return text.removesuffix("-Output").replace("-Input", "Input")


_SCHEMA = frozenset({"additionalProperties", "items", "not", "propertyNames"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties"})


def _tidy(schema: Json) -> Json:
    """A schema as generators of clients understand it, with our names of schemas in references.

    It has no title, since generators name types by titles, which pydantic repeats. Where null is accepted, which
    means "absent", the default stands in the description: generators refuse one that is not null.
    """
    result: Json = {}
    for key, value in schema.items():
        if key == "$ref":
            result[key] = _named(value)
        elif key in _SCHEMA and isinstance(value, dict):
            result[key] = _tidy(value)
        elif key in _SCHEMAS:
            result[key] = [_tidy(one) for one in value]
        elif key in _NAMED_SCHEMAS:
            result[key] = {name: _tidy(one) for name, one in value.items()}
        elif key != "title" and not key.startswith("x-kubernetes-"):
            result[key] = value
    return _default_described(result) if _is_nullable(result) else result


def _is_nullable(schema: Json) -> bool:
    return any(option.get("type") == "null" for option in schema.get("anyOf", ()))


def _default_described(schema: Json) -> Json:
    kept = {key: value for key, value in schema.items() if key != "default"}
    default, text = schema.get("default"), schema.get("description", "")
    if not isinstance(default, bool | int | str) or default == "" or "default" in text:
        return kept
    return {**kept, "description": f"{text} Default: `{json.dumps(default)}`.".strip()}


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
