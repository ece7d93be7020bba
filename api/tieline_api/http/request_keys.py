"""What is noted of a request on its way: for its line in the log, its trace, and the audit."""

from collections.abc import Mapping

from aiohttp import web

from tieline_api.cluster import revisions

REQUEST_ID = web.RequestKey("request_id", str)
OPERATION = web.RequestKey("operation", str)
USER = web.RequestKey("user", str)
ORGANISATION = web.RequestKey("organisation", str)
SESSION = web.RequestKey("session", str)
"""The id of the connect session that the request comes with."""
ORIGINS = web.RequestKey("origins", frozenset)
"""Where browsers may send the request's token from, where the token says it."""
WRITES = web.RequestKey("writes", revisions.Writes)
"""What the request has written so far."""
CREDENTIALS = web.RequestKey("credentials", Mapping)
"""The headers that tell who calls, where they are not the request's own: those of a session in a cookie."""

SESSION_ENDS = web.RequestKey("session_ends", float)
"""When the session in the request's cookie ends at the latest, in seconds since 1970."""
