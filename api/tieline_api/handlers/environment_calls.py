"""Calling the webhooks of an environment through the API."""

import base64

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.conversion import projects as convert
from tieline_api.environment_calls import WebhookAnswer, WebhookRequest, request_target, sendable_headers
from tieline_api.handlers.environments import ENVIRONMENTS
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.http.request_body import member_text
from tieline_api.schemas import environments as rest
from tieline_api.views.project_lookup import require_environment, require_project, versions_of
from tieline_core.identity.names import workload_name
from tieline_core.resources.objects import ProjectObject

OPERATIONS = Operations("Environments")


@OPERATIONS.add(
    "POST",
    f"{ENVIRONMENTS}/call",
    id="callEnvironment",
    summary="Call a webhook of an environment",
    permissions=permission("patch", "projects"),
    keeps_body=True,
    errors=(409, 502, 504),
)
async def call_environment(call: Call[rest.CallQuery, rest.WebhookCall]) -> Reply[rest.WebhookAnswer]:
    """Calls a webhook of an environment inside the cluster, and returns its answer, whatever its status. The request
    has the headers and the body that you send here, and nothing else of your request. Bodies that are strings are in
    Base64, also the answer's, unless bodyEncoding is text. Redirects are not followed. The answer is 504 when the
    webhook does not answer in 75 s, and 502 when no pod serves."""
    body = call.body
    obj = require_project(call)
    name = require_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    _require_serving(call, obj, name)
    headers = sendable_headers({name: _values(value) for name, value in body.headers.items()})
    content = sent_body(body, call.raw)
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
    workload = workload_name(obj["metadata"]["name"], name)
    answer = await call.platform.environment_calls.call(call.namespace, workload, request)
    return Reply(body=answer_to_rest(answer, as_text=body.body_encoding == "text"))


def _require_serving(call: AnyCall, project: ProjectObject, name: str) -> None:
    """ApiError 409 where nothing can answer: a draft, or a suspended environment."""
    item = convert.environment_item(project, name)
    status = convert.environment_status(project, name)
    if convert.served_version(item, status, versions_of(call.platform.cluster, project)) is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{name}" yet: deploy it first')
    if item.get("suspended"):
        raise errors.conflict(f'The environment "{name}" is suspended: deploy it to start it again')


def _values(value: rest.HeaderValues) -> list[str]:
    return [value] if isinstance(value, str) else value


def sent_body(given: rest.WebhookCall, raw: bytes) -> bytes | None:
    """The body to send; ApiError 422 for a string that is not Base64 although it should be.

    ``raw`` is the request's own body: JSON is sent as it is written there.
    """
    body = given.body
    if body is None:
        return None
    if not isinstance(body, str):
        return member_text(raw, "body")
    if given.body_encoding == "text":
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise errors.invalid(
            "body", 'is no Base64: encode it, send JSON instead of a string, or add "bodyEncoding": "text"'
        ) from None


def answer_to_rest(answer: WebhookAnswer, *, as_text: bool) -> rest.WebhookAnswer:
    """The answer as REST has it, in Base64 unless ``as_text`` and UTF-8."""
    text = _text(answer.body) if as_text else None
    return rest.WebhookAnswer(
        status=answer.status,
        headers=dict(answer.headers),
        body=base64.b64encode(answer.body).decode() if text is None else text,
        body_encoding="base64" if text is None else "text",
    )


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
