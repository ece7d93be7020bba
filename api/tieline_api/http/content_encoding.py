"""Bodies with a Content-Encoding: gzip and deflate are read, others are refused (RFC 9110, section 8.4 and 15.5.16).

aiohttp decompresses by itself otherwise, before a handler can say what is wrong; its server is started without that
(``service.listening``).
"""

from aiohttp import StreamReader, web

from tieline_api import errors
from tieline_api.inflated_bodies import DEFLATE, GZIP, Inflated, encodings_of

ACCEPTED = "gzip, deflate"


def content_of(request: web.Request) -> StreamReader | Inflated:
    """The body as it was before its Content-Encoding; ApiError 415 for an encoding that is not read.

    Reading it raises ApiError (400) where the body is not what its encoding says.
    """
    encodings = encodings_of(request.headers.getall("Content-Encoding", ()))
    if not encodings:
        return request.content
    if len(encodings) > 1 or encodings[0] not in (*GZIP, DEFLATE):
        raise errors.ApiError(
            415,
            "unsupported_media_type",
            f"The body must be sent unencoded, or with one Content-Encoding of: {ACCEPTED}",
            headers={"Accept-Encoding": ACCEPTED},
        )
    return Inflated(request.content, gzip=encodings[0] in GZIP, broken=errors.malformed)
