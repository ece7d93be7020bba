"""The endpoint: a route beside the operations of REST, which goes the same way through the dispatcher."""

from aiohttp import web

from tieline_api.agents import calls, catalogue
from tieline_api.agents.tools import server_of
from tieline_api.agents.transport import answer
from tieline_api.auth.permissions import permission
from tieline_api.http.dispatcher import Dispatcher
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.use_cases.end_user_checks import itself

TOOLS = (*catalogue.TOOLS, *calls.TOOLS)


async def speak(call: Call[None, None]) -> Reply:
    """Answers a message of the protocol."""
    server = server_of(call, TOOLS)
    return Reply(response=await answer(server, headers=call.request.headers, body=call.raw))


MCP = Operation(
    id="mcp",
    method="POST",
    path=f"{ORGANISATION}/mcp",
    summary="Speak the Model Context Protocol",
    handler=speak,
    permissions=permission("list", "projects"),
    end_user=itself,
    own_protocol=True,
    key_as_bearer=True,
)
"""Membership alone: each tool asks for what it needs. It is no operation of REST, and not in its document."""


def add_agents(app: web.Application, dispatcher: Dispatcher) -> None:
    """Adds the route. Clients that ask for a stream by GET are told 405, which the protocol knows."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await dispatcher.run(MCP, request)

    app.router.add_post(MCP.path, handle)
