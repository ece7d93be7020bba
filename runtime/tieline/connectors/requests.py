"""Requests for operations: what the code gives is checked, and put into path, query, headers and body."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp

from tieline.connectors.description import Description, Operation, Parameter
from tieline.errors import TielineError
from tieline.plain_json import encode
from tieline_protocol.openapi_parameters import (
    FORM,
    NO_PARAMETERS,
    is_json,
    listed,
    query_pairs,
    repeated,
    text_of,
)

MULTIPART = "multipart/form-data"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class InvalidCallError(TielineError, ValueError):
    """What the code gives an operation is not what its description asks for. Nothing was sent.

    >>> async def create(ctx: Context) -> list[str]:
    ...     try:
    ...         await ctx.call("shop", "createOrder", body={"reference": 7})
    ...     except InvalidCallError as error:
    ...         return error.problems
    >>> run(create)
    ['body.reference: is not of type "string"']
    """

    def __init__(self, connector: str, operation: str, problems: list[str]) -> None:
        super().__init__(f"{connector} {operation} cannot be called: {'; '.join(problems)}")
        self.problems = problems
        """Each names its field, and not its value."""


@dataclass(frozen=True, kw_only=True)
class PreparedCall:
    """A request as it is sent."""

    method: str
    url: str
    params: Mapping[str, str | list[str]]
    headers: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    """aiohttp's options for the body."""


def prepare(
    description: Description,
    operation: Operation,
    *,
    path: Mapping[str, Any],
    query: Mapping[str, Any],
    headers: Mapping[str, Any],
    body: Any,
    paged: frozenset[str] = frozenset(),
) -> PreparedCall:
    """The request for an operation. Raises InvalidCallError, and what ``encode`` raises for bodies without a JSON form.

    ``paged`` are parameters of the query that are added later. Values that are None are left out.
    """
    call = _Call(description, operation)
    url = call.path({name: value for name, value in path.items() if value is not None})
    params = call.query({name: value for name, value in query.items() if value is not None}, paged)
    sent = call.headers({name: value for name, value in headers.items() if value is not None})
    options = call.body(body)
    if call.problems:
        raise InvalidCallError(description.name, operation.id, call.problems)
    if isinstance(options.get("data"), bytes):
        sent.setdefault("Content-Type", operation.body.media_type if operation.body else "application/json")
    return PreparedCall(method=operation.method, url=url, params=params, headers=sent, options=options)


class _Call:
    def __init__(self, description: Description, operation: Operation) -> None:
        self._schemas = description.schemas
        self._operation = operation
        self.problems: list[str] = []

    def path(self, given: Mapping[str, Any]) -> str:
        url = self._operation.path
        known = {item.name for item in self._in("path")}
        self._unknown("path", set(given) - known, known)
        for parameter in self._in("path"):
            if parameter.name not in given:
                self.problems.append(f"path.{parameter.name}: is needed")
                continue
            value = self._checked(parameter, given[parameter.name])
            text = listed(value)
            if text in ("", ".", ".."):
                self.problems.append(f"path.{parameter.name}: must not be empty, '.' or '..'")
            url = url.replace(f"{{{parameter.name}}}", quote(text, safe=""))
        return url

    def query(self, given: Mapping[str, Any], paged: frozenset[str]) -> dict[str, str | list[str]]:
        parameters = list(self._in("query"))
        known = {item.name for item in parameters}
        self._unknown("query", set(given) - known, known)
        found: list[tuple[str, str]] = []
        for parameter in parameters:
            if parameter.name in given:
                value = self._checked(parameter, given[parameter.name])
                found += query_pairs(parameter.name, value, style=parameter.style, explode=parameter.explode)
            elif parameter.required and parameter.name not in paged:
                self.problems.append(f"query.{parameter.name}: is needed")
        return _grouped(found)

    def headers(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The headers and cookies. Those that the description does not know are sent as well."""
        sent = {name: text_of(_plain(value)) for name, value in given.items()}
        lower = {name.lower(): (name, value) for name, value in given.items()}
        cookies: list[str] = []
        for parameter in (*self._in("header"), *self._in("cookie")):
            name = parameter.name.lower()
            if name in NO_PARAMETERS:
                continue
            if name not in lower:
                if parameter.required:
                    self.problems.append(f"headers.{parameter.name}: is needed")
                continue
            written, value = lower[name]
            value = self._checked(parameter, value)
            text = listed(value)
            if parameter.location == "cookie":
                sent.pop(written, None)
                cookies.append(f"{parameter.name}={quote(text, safe='')}")
            else:
                sent[written] = text
        self.problems += [
            f"headers.{name}: must not have line breaks or other control characters"
            for name, text in sent.items()
            if _CONTROL.search(name) or _CONTROL.search(text)
        ]
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        return sent

    def body(self, given: Any) -> dict[str, Any]:
        described = self._operation.body
        if described is None:
            if given is not None:
                self.problems.append("body: the operation has none")
            return {}
        if given is None:
            if described.required:
                self.problems.append("body: is needed")
            return {}
        media_type = described.media_type.partition(";")[0].strip().lower()
        if is_json(media_type):
            content = encode(given)
            self.problems += self._schemas.findings(described.schema, json.loads(content), "body")
            return {"data": content.encode()}
        if media_type in (FORM, MULTIPART) and isinstance(given, Mapping):
            return {"data": self._form(given, media_type)}
        if isinstance(given, str):
            given = given.encode()
        return {"data": given}

    def _form(
        self, given: Mapping[str, Any], media_type: str
    ) -> aiohttp.FormData | dict[str, str | list[str]]:
        fields = {name: value for name, value in given.items() if value is not None}
        schema = self._schemas.resolved(self._operation.body.schema if self._operation.body else {})
        required = schema.get("required", ())
        self.problems += [f"body.{name}: is needed" for name in required if name not in fields]
        if media_type == FORM:
            return _grouped(pair for name, value in fields.items() for pair in repeated(name, _plain(value)))
        form = aiohttp.FormData()
        for name, value in fields.items():
            plain = value if isinstance(value, bytes | str) or hasattr(value, "read") else _plain(value)
            if isinstance(plain, dict):
                form.add_field(name, encode(plain), content_type="application/json")
                continue
            for item in plain if isinstance(plain, list) else [plain]:
                is_file = isinstance(item, bytes) or hasattr(item, "read")
                form.add_field(name, item if is_file else text_of(item), filename=name if is_file else None)
        return form

    def _checked(self, parameter: Parameter, value: Any) -> Any:
        plain = _plain(value)
        at = f"{'headers' if parameter.location in ('header', 'cookie') else parameter.location}.{parameter.name}"
        self.problems += self._schemas.findings(parameter.schema, plain, at)
        return plain

    def _in(self, location: str) -> Iterator[Parameter]:
        return (item for item in self._operation.parameters if item.location == location)

    def _unknown(self, where: str, names: set[str], known: set[str]) -> None:
        there = ", ".join(map(repr, sorted(known))) or "none"
        self.problems += [
            f"{where}.{name}: is no parameter of the operation (there are: {there})" for name in sorted(names)
        ]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Pairs as aiohttp takes them: the values of a name together."""
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    return {name: texts if len(texts) > 1 else texts[0] for name, texts in found.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else json.loads(encode(value))
