"""What tells the console's own page from other pages, and what may be returned to."""

import re
from urllib.parse import unquote, urlsplit

from aiohttp import web

from tieline_api import errors
from tieline_api.console_settings import is_loopback

HEADER = "X-Tieline-Console"
"""The header that pages of other origins cannot send: browsers ask the API first, and it does not allow it."""
HOME = "/console/"
_LONGEST = 2048
_LOCAL = re.compile(
    r"/console(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(?:[?#][A-Za-z0-9._~!$&'()*+,;=:@%/?#\[\]-]*)?"
)


def has_header(request: web.Request) -> bool:
    """Whether the request has the console's static header."""
    return request.headers.getall(HEADER, ()) == ["1"]


def is_from_elsewhere(request: web.Request, *, public_url: str) -> bool:
    """Whether the browser says that a page of another origin has made the request.

    Programs that are no browsers, and browsers at plain HTTP, say nothing: that is no proof, and not refused.
    """
    sites = request.headers.getall("Sec-Fetch-Site", ())
    if any(site != "same-origin" for site in sites):
        return True
    own = {request.host.lower(), urlsplit(public_url).netloc.lower()} - {""}
    return any(urlsplit(one).netloc.lower() not in own for one in request.headers.getall("Origin", ()))


def refuse_others(request: web.Request, *, public_url: str) -> None:
    """ApiError 403 for requests of other pages, and for pages whose connection anybody on the way can read."""
    if is_from_elsewhere(request, public_url=public_url):
        raise errors.forbidden("Only the console's own page may sign in and out")
    page = urlsplit(request.headers.get("Origin", ""))
    if page.scheme == "http" and not is_loopback(page.hostname or ""):
        raise errors.forbidden(
            "The console signs in over HTTPS only, because anybody on the way can read plain HTTP: open it at an "
            "https:// address, or forward a port of this machine (kubectl port-forward) and open http://localhost"
        )


def local_path(text: str) -> str:
    """``text`` where it is a path of the console, else the console's first page."""
    if len(text) > _LONGEST or not _LOCAL.fullmatch(text):
        return HOME
    path = re.split("[?#]", text, maxsplit=1)[0]
    plain = unquote(unquote(path))
    unsafe = "//" in plain or "\\" in plain or not plain.isprintable()
    return HOME if unsafe or {".", ".."} & set(plain.split("/")) else text
