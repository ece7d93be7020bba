"""All paths of the console, in the order in which they are looked up."""

from aiohttp import web

from tieline_api.console.credentials import add_cookies
from tieline_api.console.parts import Console
from tieline_api.console.sign_in import add_session
from tieline_api.console.static_files import add_files


def add_console(app: web.Application, console: Console) -> None:
    """Adds the console to the application of the REST API."""
    app.on_response_prepare.append(add_cookies)
    add_session(app, console)
    add_files(app, console.settings.console_folder)
