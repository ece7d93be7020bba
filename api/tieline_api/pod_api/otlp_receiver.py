"""``POST /internal/v1/traces``: takes spans of environments' pods, as OTLP over HTTP.

The pod shows its projected ServiceAccount token, as for its configuration. Whose spans they are is what the
token says, whatever the spans say themselves.
"""

from aiohttp import web

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import read_body
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_api.traces import otlp
from tieline_api.traces.origins import Origin
from tieline_api.traces.otlp_batch import OtlpDecodeError, TooManySpansError
from tieline_api.traces.spans import Owner
from tieline_core.identity.ids import environment_id, object_id

PATH = "/internal/v1/traces"
MAX_BODY = 4 * 1024 * 1024
"""Also of what a compressed body expands to."""


def add_traces(app: web.Application, platform: Dependencies) -> None:
    """Adds the receiver."""
    app.router.add_post(PATH, endpoint("internalTraces", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """200 when the spans are queued; 429 when none of them are, since too many wait."""
    origin = await _origin(request, platform)
    content_type = request.content_type.lower()
    if content_type not in otlp.CONTENT_TYPES:
        raise errors.ApiError(
            415, "unsupported_media_type", f"The body must be one of {', '.join(otlp.CONTENT_TYPES)}"
        )
    body = await read_body(request, limit=MAX_BODY)
    try:
        batch = await platform.traces.take(origin, content_type, body)
    except OtlpDecodeError as error:
        raise errors.malformed(str(error)) from None
    except TooManySpansError as error:
        raise errors.ApiError(413, "too_large", str(error)) from None
    if batch is None:
        raise errors.too_many_requests("Too many spans wait to be stored: send them again", retry_after=1)
    return web.Response(body=otlp.answer(content_type, batch), content_type=content_type)


async def _origin(request: web.Request, platform: Dependencies) -> Origin:
    namespace, workload = await authenticated_workload(request, platform)
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    project_id = object_id(project)
    owner = Owner(
        organisation=organisation.id, project=project_id, environment=environment_id(project_id, name)
    )
    return Origin(owner=owner, service=f"{namespace}/{workload}")
