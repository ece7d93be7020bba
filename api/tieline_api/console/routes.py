"""All paths of the console, in the order in which they are looked up."""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from tieline_api.console.credentials import add_cookies
from tieline_api.console.login import add_login
from tieline_api.console.parts import Console
from tieline_api.console.refresh_notes import RefreshNotes
from tieline_api.console.sign_in import add_session
from tieline_api.console.static_files import add_files


def add_console(app: web.Application, console: Console) -> None:
    """Adds the console to the application of the REST API."""
    app.on_response_prepare.append(add_cookies)
    add_session(app, console)
    if console.provider:
        add_login(app, console, console.provider)
    if console.notes:
        app.cleanup_ctx.append(_sweeping(console.notes))
    add_files(app, console.settings.console_folder)


def _sweeping(notes: RefreshNotes) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(notes.run_periodically(), name="sweep notes of refreshes")
        yield
        task.cancel()

    return run
