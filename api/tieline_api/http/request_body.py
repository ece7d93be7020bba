"""Reading a request: body with a limit, query, unknown fields."""

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar, get_args, get_origin

import orjson
from aiohttp import web
from pydantic import BaseModel, RootModel, ValidationError

from tieline_api import errors
from tieline_api.http.content_encoding import content_of
from tieline_api.schemas.auth_schemes import FOREIGN

M = TypeVar("M", bound=BaseModel)

BODY_SECONDS = 60.0
MAX_WARNINGS = 5
_MAX_DEPTH = 64
_AT_ONCE = 256 * 1024
"""Bytes of a body that is read without a thread."""
_BOM = b"\xef\xbb\xbf"
_CLOSE = 0.7  # difflib's measure, 1 is the same
_SPACE, _SPACE_AND_COLON, _SPACE_AND_COMMA = (
    re.compile(pattern) for pattern in (r"[ \t\r\n]*", r"[ \t\r\n:]*", r"[ \t\r\n,]*")
)
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Finds where values end. Numbers stay text: those of many digits take long to become numbers."""
_JSON_TYPES = ("application/json", "text/json")
GRACE_SECONDS = 15.0
"""What every body has, whatever its size."""
BYTES_PER_SECOND = 4096
"""What has to arrive on average after that: who sends less holds a connection for nothing."""


async def read_body(request: web.Request, *, limit: int, seconds: float = BODY_SECONDS) -> bytes:
    """The body's bytes, at most ``limit`` (counted after decompression); 413 beyond.

    Raises ApiError: 400, 408, 413, and 415 for a Content-Encoding that is not read.
    """
    if request.content_length is not None and request.content_length > limit:
        raise errors.too_large("The body", limit=limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async with ProgressTimeout(seconds) as pace:
            async for chunk in content_of(request).iter_any():
                size += len(chunk)
                pace.arrived(size)
                if size > limit:
                    raise errors.too_large("The body", limit=limit)
                chunks.append(chunk)
    except TimeoutError:
        raise errors.ApiError(
            408, "timeout", f"The body arrived too slowly, or not within {seconds:g} s"
        ) from None
    except web.RequestPayloadError:
        raise errors.malformed(
            "The body cannot be read: its encoding or length is not what its headers say"
        ) from None
    return b"".join(chunks)


def parse_json(request: web.Request, body: bytes) -> Any:
    """The JSON value of a body; 415 for another content type, 400 for what is no JSON in UTF-8."""
    declared = request.headers.get("Content-Type")
    if declared is not None:
        plain = request.content_type.lower()
        if plain not in _JSON_TYPES and not plain.endswith("+json"):
            raise errors.ApiError(415, "unsupported_media_type", "The body must be application/json")
        if (request.charset or "utf-8").lower() not in ("utf-8", "utf8", "us-ascii"):
            raise errors.ApiError(415, "unsupported_media_type", "The body must be in UTF-8")
    try:
        return orjson.loads(body.removeprefix(_BOM))
    except orjson.JSONDecodeError as error:
        raise errors.malformed(
            f"The body is no JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None


def member_text(body: bytes, name: str) -> bytes:
    """The value that a JSON object has at ``name``, as it was sent: the text of numbers, too. The last of several.

    ``body`` is what ``parse_json`` has read, and has the name.
    """
    text = body.removeprefix(_BOM).decode()
    position = _end(_SPACE, text, _end(_SPACE, text, 0) + 1)
    found = ""
    while text[position] == '"':
        key, position = _DECODER.raw_decode(text, position)
        start = _end(_SPACE_AND_COLON, text, position)
        _, position = _DECODER.raw_decode(text, start)
        if key == name:
            found = text[start:position]
        position = _end(_SPACE_AND_COMMA, text, position)
    return found.encode()


def element_texts(text: bytes) -> list[bytes]:
    """The elements of a JSON array, as they were sent; ``text`` is from ``member_text``."""
    given = text.decode()
    position = _end(_SPACE, given, 1)
    found: list[bytes] = []
    while given[position] != "]":
        _, end = _DECODER.raw_decode(given, position)
        found.append(given[position:end].encode())
        position = _end(_SPACE_AND_COMMA, given, end)
    return found


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


async def read_model(
    request: web.Request,
    model: type[M],
    body: bytes,
    *,
    strict: bool = False,
    elsewhere: Mapping[str, str] | None = None,
) -> tuple[M, list[str]]:
    """A JSON body as a model, and warnings, as ``validate``; with ``strict`` unknown fields are refused.

    That of a large body takes seconds, in which other requests go on.
    """

    def read() -> tuple[M, list[str]]:
        value = parse_json(request, body)
        if strict:
            refuse_unknown_fields(model, value)
        return validate(model, value, elsewhere=elsewhere)

    return read() if len(body) <= _AT_ONCE else await asyncio.to_thread(read)


def validate(
    model: type[M], value: Any, *, elsewhere: Mapping[str, str] | None = None
) -> tuple[M, list[str]]:
    """``value`` as a model, and a warning for each field that it does not know; 422 when it does not fit.

    ``elsewhere``: parameters of the operation and where they belong, for fields that are not of the body.
    """
    if not isinstance(value, dict):
        raise errors.invalid("", "The body must be a JSON object")
    if _deeper_than(value, _MAX_DEPTH):
        raise errors.invalid("", f"The body is nested deeper than {_MAX_DEPTH} levels")
    try:
        parsed = model.model_validate(value, extra="allow", by_alias=True, by_name=False)
    except ValidationError as error:
        raise errors.from_validation(
            error, hint=lambda item: _misspelt_field(model, value, item["type"], item["loc"])
        ) from None
    if isinstance(parsed, RootModel):
        return parsed, []
    extra = parsed.__pydantic_extra__ or {}
    misplaced = [name for name in extra if elsewhere and name in elsewhere]
    hints = [f'unknown field "{name}": it is a {(elsewhere or {})[name]} parameter' for name in misplaced]
    for name in misplaced:
        del extra[name]
    return parsed, [*hints, *_take_unknown(parsed, ())]


def validate_query(model: type[M], request: web.Request, *, body_fields: Collection[str] = ()) -> M:
    """The query's known parameters; 422 when one does not fit. Of a repeated one that is no list the last counts.

    ``body_fields``: names in the request's body, for a hint where a required parameter was sent there.
    """
    known = parameters_of(model)
    given: dict[str, Any] = {
        name: value for name, value in request.query.items() if name in known and value != ""
    }
    for name in lists_of(model) & given.keys():
        given[name] = [value for value in request.query.getall(name) if value != ""]

    def hint(item: Any) -> str:
        name = str(item["loc"][0]) if item["loc"] else ""
        note = f" (a query parameter: ?{name}=…)"
        if item["type"] != "missing":
            return " (a query parameter)"
        if name in body_fields:
            return f"{note}; it was sent in the body, send it in the query"
        unknown = [one for one in request.query if one not in known]
        return note + (f'; rename the unknown "{unknown[0][:64]}"' if len(unknown) == 1 else "")

    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise errors.from_validation(error, hint=hint) from None


def unknown_parameters(
    model: type[BaseModel] | None, request: web.Request, *, body_fields: Collection[str] = ()
) -> list[str]:
    """A warning for each query parameter that the operation does not have, with the one that may be meant."""
    if not request.query_string:
        return []
    known = parameters_of(model)
    warnings = []
    for name in dict.fromkeys(request.query):
        if name in known:
            continue
        note = "; it is a field of the body" if name in body_fields else _suggestion(name, known)
        warnings.append(f'unknown query parameter "{name[:64]}" was ignored{note}')
    return warnings


def refuse_unknown_fields(model: type[BaseModel], value: Any) -> None:
    """ApiError 422 that names the fields of a body that the operation does not have."""
    if isinstance(value, dict):
        _refuse("field", value, sorted(names_of(model)))


def refuse_unknown_parameters(model: type[BaseModel] | None, request: web.Request) -> None:
    """ApiError 422 that names the query parameters that the operation does not have."""
    _refuse("query parameter", request.query, parameters_of(model))


def refuse_repeated_parameters(model: type[BaseModel] | None, request: web.Request) -> None:
    """ApiError 422 that names the query parameters that have several values: one of them would be ignored.

    Lists take several.
    """
    lists = lists_of(model) if model else frozenset[str]()
    values: dict[str, set[str]] = {}
    for name, value in request.query.items():
        if name not in lists:
            values.setdefault(name, set()).add(value)
    repeated = [
        errors.FieldError(
            name[:64], "is there several times with different values; send one request for each"
        )
        for name in islice((one for one, found in values.items() if len(found) > 1), errors.MAX_FIELDS)
    ]
    if repeated:
        raise errors.invalid_fields(repeated)


def _refuse(kind: str, given: Iterable[str], known: list[str]) -> None:
    unknown = [
        errors.FieldError(name[:64], f"is no {kind} of this operation{_suggestion(name, known)}")
        for name in islice((one for one in given if one not in known), errors.MAX_FIELDS)
    ]
    if unknown:
        raise errors.invalid_fields(unknown)


def _suggestion(name: str, known: list[str]) -> str:
    """Which of ``known`` may be meant: a close one, or else all of the few that there are."""
    lower = {one.lower().replace("_", ""): one for one in known}
    close = get_close_matches(name[:64].lower().replace("_", ""), lower, n=1, cutoff=_CLOSE)
    if close:
        return f'; did you mean "{lower[close[0]]}"?'
    return f"; this operation takes {', '.join(known)}" if known else "; this operation takes none"


def _misspelt_field(model: type[BaseModel], value: Any, kind: str, path: tuple[str | int, ...]) -> str:
    """For a required field that is missing: the unknown field beside it that is close to it."""
    if kind != "missing":
        return ""
    models, parent = {model}, value
    for step in path[:-1]:
        try:
            inner = parent[step]
        except (KeyError, IndexError, TypeError):
            continue  # a step that pydantic adds, such as the branch of a union
        parent = inner
        if isinstance(step, str):
            models = {found for one in models for found in _models_at(one, step)}
    if not isinstance(parent, dict):
        return ""
    known = {name for one in models for name in names_of(one)}
    missing = str(path[-1])
    unknown = {
        name.lower().replace("_", ""): name
        for name in list(parent)[:100]
        if name not in known and len(name) <= 64
    }
    close = get_close_matches(missing.lower(), unknown, n=1, cutoff=_CLOSE)
    return f'; rename the unknown field "{unknown[close[0]]}"' if close else ""


def parameters_of(model: type[BaseModel] | None) -> list[str]:
    """The names of a query's parameters, in their order."""
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


@cache
def lists_of(model: type[BaseModel]) -> frozenset[str]:
    """The names of a query's parameters that may be there several times."""
    return frozenset(
        info.alias or name
        for name, info in model.model_fields.items()
        if any(get_origin(one) is list for one in (info.annotation, *get_args(info.annotation)))
    )


@cache
def names_of(model: type[BaseModel]) -> frozenset[str]:
    """The names of a model's fields in JSON."""
    return frozenset(info.alias or name for name, info in model.model_fields.items())


@cache
def _models_at(model: type[BaseModel], name: str) -> frozenset[type[BaseModel]]:
    """The models that the field of this name in JSON may hold."""
    found = (info for key, info in model.model_fields.items() if (info.alias or key) == name)
    return frozenset(one for info in found for one in _models_in(info.annotation))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def warning_header(texts: list[str]) -> str | None:
    """The value of a Warning header (RFC 7234, 299) that names a few of ``texts``."""
    if not texts:
        return None
    shown = [f'299 - "{_quoted(text)}"' for text in texts[:MAX_WARNINGS]]
    if len(texts) > MAX_WARNINGS:
        shown.append(f'299 - "and {len(texts) - MAX_WARNINGS} more"')
    return ", ".join(shown)


def _take_unknown(model: BaseModel, path: tuple[str | int, ...]) -> Iterator[str]:
    """Names the unknown fields in a model, and takes them out of it."""
    extra = model.__pydantic_extra__
    if extra:
        for name in extra:
            if name.startswith(FOREIGN):
                shown = errors.field_path((*path, name.removeprefix(FOREIGN)))
                yield f'field "{shown}" does not belong to this type and was ignored'
            else:
                yield f'unknown field "{errors.field_path((*path, name))}"'
        extra.clear()
    for name, info in type(model).model_fields.items():
        # What may be anything has no models in it, and may have millions of parts.
        if info.annotation is not Any:
            yield from _take_unknown_in(getattr(model, name), (*path, info.alias or name))


def _take_unknown_in(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from _take_unknown(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _take_unknown_in(item, (*path, index))


def _deeper_than(value: Any, depth: int) -> bool:
    containers = [value]
    for _ in range(depth - 1):
        containers = [
            child
            for item in containers
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not containers:
            return False
    return any(containers)


def _quoted(text: str) -> str:
    safe = "".join(letter if " " <= letter <= "~" else "?" for letter in text[:200])
    return safe.replace("\\", "\\\\").replace('"', '\\"')


class ProgressTimeout:
    """A time-out that moves on with what arrives; ``async with`` raises TimeoutError as ``asyncio.timeout`` does."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is the limit that nothing moves."""
        loop = asyncio.get_running_loop()
        self._began, self._last = loop.time(), loop.time() + seconds
        self._timeout = asyncio.timeout_at(min(self._last, self._began + GRACE_SECONDS))

    def arrived(self, size: int) -> None:
        """Tells how many bytes have arrived so far."""
        due = self._began + GRACE_SECONDS + size / BYTES_PER_SECOND
        self._timeout.reschedule(min(self._last, due))

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)
