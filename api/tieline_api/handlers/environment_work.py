"""How much stored work an environment has, for autoscalers."""

from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import environments as rest
from tieline_api.views.activation_lookup import environment_in_path
from tieline_protocol.event_streams import EventStreams

OPERATIONS = Operations("Environments")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/environments/{{environment_id}}/work",
    id="getEnvironmentWork",
    summary="Get how much work an environment has, for autoscalers",
    permissions=permission("list", "projects"),
)
async def get_work(call: Call[None, None]) -> Reply[rest.EnvironmentWork]:
    """Returns how many events and queued webhooks could run now, and how many of them pods have taken. Events behind
    another one of their key do not count, nor does what waits for a time: more pods would not run it sooner. The event
    engine is asked at each request; the answer is 503 while it is away."""
    environment = environment_in_path(call)
    streams = EventStreams(call.organisation.id, environment.id)
    engine = call.platform.environments.of(streams)
    waiting = running = 0
    for stream, consumer in streams.consumers:
        pending = await engine.pending(stream, consumer)
        waiting += pending.waiting
        running += pending.taken
    return Reply(body=rest.EnvironmentWork(waiting=waiting, running=running, total=waiting + running))
