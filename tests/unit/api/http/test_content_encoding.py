"""Compressed, malformed and odd bodies: read, or refused with a sentence of ours, and no line in the log."""

import gzip
import itertools
import json
import logging
import warnings
import zlib
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_api import errors
from tieline_api.errors import ApiError
from tieline_api.http.middleware import error_handling
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.http.uploads import UploadMemory, read_upload
from tieline_api.inflated_bodies import Inflated
from tieline_api.schemas.connectors import ImportMetadata
from tieline_api.server.http_server import Runner

LIMIT = 1024 * 1024
VALUE = {"name": "é" * 1000}
JSON = json.dumps(VALUE).encode()
RAW_DEFLATE = zlib.compressobj(wbits=-15)
BOUNDARY = "b0undary"

Http = TestClient[web.Request, web.Application]


class _Server(TestServer):
    """The server as it is deployed."""

    async def _make_runner(self, **_options: Any) -> Runner:
        return Runner(self.app, shutdown_timeout=1)


@pytest.fixture
async def http(aiohttp_client: Callable[..., Awaitable[Http]]) -> Http:
    room = UploadMemory(4 * LIMIT)

    async def echo(request: web.Request) -> web.Response:
        return web.json_response(parse_json(request, await read_body(request, limit=LIMIT)))

    async def upload(request: web.Request) -> web.Response:
        async with room.file("acme") as file:
            metadata, _ = await read_upload(request, ImportMetadata, file, limit=LIMIT)
            file.file.seek(0)
            content = file.file.read()
        return web.json_response({"metadata": metadata.model_dump(mode="json"), "size": len(content)})

    app = web.Application(middlewares=[error_handling])
    app.router.add_post("/echo", echo)
    app.router.add_post("/upload", upload)
    return await aiohttp_client(_Server(app))


async def sent(http: Http, path: str, data: bytes, **headers: str) -> tuple[int, Any, Any]:
    named = {
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    async with http.post(path, data=data, headers=named, skip_auto_headers=("Accept-Encoding",)) as response:
        return response.status, await response.json(), response.headers


COMPRESSED = {
    "plain": ("identity", JSON),
    "gzip": ("gzip", gzip.compress(JSON)),
    "x-gzip": ("X-GZIP", gzip.compress(JSON)),
    "two members": ("gzip", gzip.compress(JSON[:40]) + gzip.compress(JSON[40:])),
    "deflate": ("deflate", zlib.compress(JSON)),
    "deflate without its header": ("deflate", RAW_DEFLATE.compress(JSON) + RAW_DEFLATE.flush()),
}


@pytest.mark.parametrize(("encoding", "data"), COMPRESSED.values(), ids=COMPRESSED.keys())
async def test_compressed_bodies_are_read(http: Http, encoding: str, data: bytes) -> None:
    assert (await sent(http, "/echo", data, Content_Encoding=encoding))[:2] == (200, VALUE)


MALFORMED = {
    "no gzip": ("gzip", b"not gzip at all"),
    "gzip cut off": ("gzip", gzip.compress(JSON)[:-10]),
    "gzip with a wrong sum": ("gzip", gzip.compress(JSON)[:-8] + bytes(8)),
    "gzip and more": ("gzip", gzip.compress(JSON) + b"more"),
    "no deflate": ("deflate", b"\xff" * 40),
    "deflate and more": ("deflate", zlib.compress(JSON) + b"more"),
}


@pytest.mark.parametrize(("encoding", "data"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_compression_is_told_and_logs_nothing(
    http: Http, encoding: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status, body, _ = await sent(http, "/echo", data, Content_Encoding=encoding)
    assert (status, body["code"]) == (400, "malformed")
    assert f"not {encoding}" in body["message"]
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "nonsense"])
@pytest.mark.parametrize("path", ["/echo", "/upload"])
async def test_other_encodings_are_415_and_name_those_that_are_read(
    http: Http, encoding: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = f"multipart/form-data; boundary={BOUNDARY}" if path == "/upload" else "application/json"
    status, body, headers = await sent(http, path, JSON, Content_Encoding=encoding, Content_Type=kind)
    assert (status, body["code"], headers["Accept-Encoding"]) == (
        415,
        "unsupported_media_type",
        "gzip, deflate",
    )
    assert "rotli" not in body["message"]
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


async def test_a_bomb_is_413(http: Http) -> None:
    status, body, _ = await sent(http, "/echo", gzip.compress(bytes(64 * LIMIT)), Content_Encoding="gzip")
    assert (status, body["code"]) == (413, "too_large")


def part(disposition: str, content: bytes) -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + content + b"\r\n"


METADATA = part('form-data; name="metadata"', b'{"format": "openapi", "version": "1"}')
FILE = part('form-data; name="file"; filename="a.json"', b"{}" * 1000)
END = f"--{BOUNDARY}--\r\n".encode()
FORM = f"multipart/form-data; boundary={BOUNDARY}"


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate"])
async def test_uploads_may_be_compressed(http: Http, encoding: str) -> None:
    pack = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    status, body, _ = await sent(
        http, "/upload", pack(METADATA + FILE + END), Content_Encoding=encoding, Content_Type=FORM
    )
    assert (status, body["size"]) == (200, 2000), body


PARTS = {
    "a long _charset_": (part('form-data; name="_charset_"', b"x" * 32), 200),
    "a _charset_ that is no text": (part('form-data; name="_charset_"', b"\xff\xfe"), 200),
    "a short _charset_": (part('form-data; name="_charset_"', b"utf-8"), 200),
    "an unknown _charset_": (part('form-data; name="_charset_"', b"nope"), 200),
    "no name": (part("form-data", b"x"), 400),
    "a malformed disposition": (part('form-data; name="a"; name=b; =', b"x"), 400),
    "no disposition": (f"--{BOUNDARY}\r\n\r\nx\r\n".encode(), 400),
    "half a disposition": (part('form-data; name="fil', b"x"), 400),
    "an encoded name that is none": (part("form-data; name*=utf-9''%ff", b"x"), 400),
}


@pytest.mark.parametrize(("first", "status"), PARTS.values(), ids=PARTS.keys())
async def test_odd_parts_are_read_or_refused_without_a_line_in_the_log(
    http: Http, first: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the server does (service.logs)
        answered, body, _ = await sent(http, "/upload", first + METADATA + FILE + END, Content_Type=FORM)
    assert answered == status, body
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


class Pieces:
    """A stream that gives these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    async def readany(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@settings(max_examples=100)
@given(
    content=st.binary(max_size=2000), cuts=st.lists(st.integers(0, 2100), max_size=6), use_gzip=st.booleans()
)
async def test_however_it_is_cut_the_content_comes_back(
    content: bytes, cuts: list[int], use_gzip: bool
) -> None:
    data = gzip.compress(content) if use_gzip else zlib.compress(content)
    ends = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(ends)]
    lines = Inflated(Pieces(list(pieces)), gzip=use_gzip, broken=errors.malformed)  # type: ignore[arg-type]
    read = b""
    while line := await lines.readline():
        assert b"\n" not in line[:-1]
        read += line
    assert read == content
    assert lines.at_eof()
    whole = Inflated(Pieces(list(pieces)), gzip=use_gzip, broken=errors.malformed)  # type: ignore[arg-type]
    assert await whole.read() == content


@pytest.mark.parametrize("size", [262_140, 262_166, 262_240, 524_376, 786_461])
async def test_a_stream_whose_last_piece_needs_no_more_input_is_whole(size: int) -> None:
    raw = zlib.compressobj(wbits=-15)
    data = raw.compress(bytes(size)) + raw.flush()
    stream = Inflated(Pieces([data]), gzip=False, broken=errors.malformed)  # type: ignore[arg-type]
    assert await stream.read() == bytes(size)
    assert stream.at_eof()


async def test_members_without_content_come_to_an_end() -> None:
    for many, is_refused in ((5_000, False), (20_000, True)):
        pieces = [gzip.compress(b"") * 1_000] * (many // 1_000)
        stream = Inflated(Pieces(pieces), gzip=True, broken=errors.malformed)  # type: ignore[arg-type]
        with pytest.raises(ApiError) if is_refused else nullcontext():
            assert await stream.read() == b""


@settings(max_examples=100)
@given(st.binary(min_size=1, max_size=200), st.booleans())
async def test_any_bytes_are_read_or_refused(data: bytes, use_gzip: bool) -> None:
    try:
        await Inflated(Pieces([data]), gzip=use_gzip, broken=errors.malformed).read()  # type: ignore[arg-type]
    except ApiError as refused:
        assert refused.status == 400  # noqa: PT017
