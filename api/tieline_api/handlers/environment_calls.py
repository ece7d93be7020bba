"""Calling the webhooks of an environment through the API."""

import base64
import binascii
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.conversion import projects as convert
from tieline_api.environment_calls import WebhookAnswer, WebhookRequest, request_target, sendable_headers
from tieline_api.handlers.environments import ENVIRONMENTS
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.http.request_body import member_text
from tieline_api.schemas import environments as rest
from tieline_api.use_cases.project_lookup import need_environment, need_project, versions_of
from tieline_core.identity.names import current_workload
from tieline_core.objects import ObjectView


async def call_environment(call: Call[rest.CallQuery, rest.WebhookCall]) -> Reply:
    """Calls a webhook of an environment inside the cluster, and returns its answer, whatever its status. The request
    has the headers and the body that you send here, and nothing else of your request. Redirects are not followed. The
    answer is 504 when the webhook does not answer in 75 s, and 502 when no pod serves."""
    body = call.body
    obj = need_project(call)
    name = need_environment(obj, identifier=call.query.env_id, fields=("env_id", "env_id"))
    _need_serving(call, obj, name)
    headers = sendable_headers({name: _values(value) for name, value in body.headers.items()})
    content = _content(call)
    typed = any(name.lower() == "content-type" for name, _ in headers)
    if content is not None and not isinstance(body.body, str) and not typed:
        headers.append(("Content-Type", "application/json"))
    query = [(name, value) for name, values in body.query.items() for value in _values(values)]
    request = WebhookRequest(
        method=body.method,
        target=request_target(body.url_path, query),
        headers=headers,
        body=content,
    )
    workload = current_workload(obj, name)
    return Reply(body=_shown(await call.platform.environment_calls.call(call.namespace, workload, request)))


def _need_serving(call: Call[Any, Any], project: ObjectView, name: str) -> None:
    """ApiError 409 where nothing can answer: a draft, or a suspended environment."""
    item = next(one for one in convert.environment_items(project) if one["name"] == name)
    status = convert.environment_status(project, name)
    if convert.served_version(item, status, versions_of(call.platform.world, project)) is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{name}" yet: deploy it first')
    if item.get("suspended"):
        raise errors.conflict(f'The environment "{name}" is suspended: deploy it to start it again')


def _values(value: rest.HeaderValues) -> list[str]:
    return [value] if isinstance(value, str) else value


def _content(call: Call[rest.CallQuery, rest.WebhookCall]) -> bytes | None:
    """The body to send; ApiError 422 for one that is not Base64 although it should be."""
    body = call.body.body
    if call.body.body_encoding is not None:
        try:
            return base64.b64decode(body if isinstance(body, str) else b"!", validate=True)
        except (binascii.Error, ValueError):
            raise errors.invalid("body", "must be a string in Base64, as bodyEncoding says") from None
    if isinstance(body, str):
        return body.encode()
    return None if body is None else member_text(call.raw, "body")


def _shown(answer: WebhookAnswer) -> rest.WebhookAnswer:
    try:
        text, encoding = answer.body.decode(), None
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(answer.body).decode(), "base64"
    return rest.WebhookAnswer.model_validate(
        {"status": answer.status, "headers": answer.headers, "body": text, "bodyEncoding": encoding}
    )


OPERATIONS = (
    Operation(
        id="callEnvironment",
        method="POST",
        path=f"{ENVIRONMENTS}/call",
        summary="Call a webhook of an environment",
        handler=call_environment,
        permissions=permission("patch", "projects"),
        keeps_body=True,
        response=rest.WebhookAnswer,
        errors=(409, 502, 504),
    ),
)
