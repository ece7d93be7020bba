"""The provider of OAuth 1.0 on a thread of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.harness.processes.local_servers import serving
from tests.unit.oauth.oauth1_provider import OAuth1Provider


@contextmanager
def signing_provider() -> Iterator[OAuth1Provider]:
    """Serves on this machine until the end of the block."""
    found, app = OAuth1Provider(), web.Application()
    found.add_to(app)
    with serving(app) as found.url:
        yield found
