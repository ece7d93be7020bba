"""Headers that every answer has: what a browser must not make of it."""

from aiohttp import web

STANDARD = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Answers are for one caller, and the header that says so may be one that caches do not know (X-API-Key).
    "Cache-Control": "private, no-cache",
}
"""What an answer gets that says nothing else. The pages of the API set a policy of their own."""


async def add_standard_headers(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    """For ``on_response_prepare``."""
    complete(response)


def complete(response: web.StreamResponse) -> None:
    """Adds the headers that are missing, and does not name the server's software and its version."""
    for name, value in STANDARD.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "tieline"
