"""A plain function's request has what an async one's has."""

from pathlib import Path

import aiohttp
from aiohttp import web

from tests.unit.testing.written_projects import folder
from tieline import SyncRequest
from tieline.testing import Project

CODE = """
from tieline import SyncRequest

def told(request):
    return {
        name: str(getattr(request, name))
        for name in ("method", "path", "raw_path", "path_qs", "rel_url", "scheme", "secure", "host", "remote", "url",
            "query_string", "content_type", "charset", "content_length", "body_exists")
    } | {"user": request.match_info.get("external_id"), "query": list(request.query.items()),
         "cookies": dict(request.cookies), "agent": request.headers["User-Agent"]}

def fields(form):
    return {name: value if isinstance(value, str) else [value.filename, value.file.read().decode()]
        for name, value in form.items()}

@integration.webhook("here")
async def here(ctx: Context, request: Request) -> dict:
    return told(request) | {"read": (await request.read()).decode(), "form": fields(await request.post())}

@integration.webhook("there")
def there(ctx: SyncContext, request: SyncRequest) -> dict:
    return told(request) | {"read": request.read().decode(), "form": fields(request.post())}
"""
# What needs a loop, answers by itself, or is aiohttp's own affair.
LEFT_OUT = {
    "ATTRS", "POST_METHODS", "app", "can_read_body", "client_max_fields", "client_max_size", "clone",
    "config_dict", "content", "forwarded", "get_extra_info",
    "http_range", "if_match", "if_modified_since", "if_none_match", "if_range", "if_unmodified_since", "keep_alive",
    "keep_alive_timeout", "loop", "multipart", "protocol", "raw_headers", "release", "set_response_params", "task",
    "transport", "user", "version", "writer", "can_upgrade", "clear", "copy", "get", "items", "keys", "pop", "popitem",
    "setdefault", "update", "values", "has_body", "message", "query_params",
}  # fmt: skip


def test_both_kinds_tell_the_same(tmp_path: Path) -> None:
    with Project(folder(tmp_path, CODE)) as project:
        project.user("ann")
        for data in ({"a": "1", "ü": "ö"}, b"", "plain text"):
            options = {"data": data, "headers": {"Cookie": "c=d"}, "user": "ann"}
            both = [project.post(f"/{name}?x=%20y", **options).json() for name in ("here", "there")]
            one, other = (
                {name: str(value).replace("there", "here") for name, value in told.items()} for told in both
            )
            assert one == other


def test_a_form_with_files_can_be_read_without_await(tmp_path: Path) -> None:
    with Project(folder(tmp_path, CODE)) as project:
        form = aiohttp.FormData({"name": "order"})
        form.add_field("file", b"content", filename="order.csv")
        body = form()
        # A multipart body that declares its length.
        import asyncio

        content = asyncio.run(_bytes(body))
        answer = project.post("/there", data=content, headers={"Content-Type": body.content_type})
        assert answer.json()["form"] == {"name": "order", "file": ["order.csv", "content"]}


async def _bytes(payload: aiohttp.payload.Payload) -> bytes:
    return await payload.as_bytes()


def test_nothing_of_a_request_is_missing() -> None:
    public = {name for name in dir(web.Request) if not name.startswith("_")}
    assert public - LEFT_OUT - set(dir(SyncRequest)) == set()
