"""Requests for operations: what the code gives is checked, and put into path, query, headers and body."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
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
    unknown_names,
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


class RequestChecks(StrEnum):
    """What happens when a value that is to be sent does not follow its schema."""

    LOG = "log"
    RAISE = "raise"


class _Problems:
    """What is wrong with a call, in the order in which it was found."""

    def __init__(self) -> None:
        self._found: list[tuple[str, bool]] = []

    def add(self, *texts: str) -> None:
        """Adds what makes that there is no request to send."""
        self._found += [(text, False) for text in texts]

    def add_findings(self, texts: Iterable[str]) -> None:
        """Adds what values have that their schemas do not say."""
        self._found += [(text, True) for text in texts]

    def all(self) -> list[str]:
        """All of them."""
        return [text for text, _ in self._found]

    @property
    def are_findings(self) -> bool:
        """Whether there are none but findings of schemas."""
        return all(is_finding for _, is_finding in self._found)


@dataclass(frozen=True, kw_only=True)
class PreparedCall:
    """A request as it is sent."""

    method: str
    url: str
    params: Mapping[str, str | list[str]]
    headers: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    """aiohttp's options for the body."""
    findings: list[str] = field(default_factory=list)
    """Where it does not follow the description, and is sent all the same."""


def prepare(
    description: Description,
    operation: Operation,
    *,
    path: Mapping[str, Any],
    query: Mapping[str, Any],
    headers: Mapping[str, Any],
    body: Any,
    paged: frozenset[str] = frozenset(),
    checks: RequestChecks = RequestChecks.RAISE,
) -> PreparedCall:
    """The request for an operation. Raises InvalidCallError, and what ``encode`` raises for bodies without a JSON form.

    ``paged`` are parameters of the query that are added later. Values that are None are left out. Where ``checks`` is
    LOG, values that do not follow their schemas are sent: descriptions are wrong, too.
    """
    call = _Call(description, operation)
    url = call.path({name: value for name, value in path.items() if value is not None})
    params = call.query({name: value for name, value in query.items() if value is not None}, paged)
    sent = call.headers({name: value for name, value in headers.items() if value is not None})
    options = call.body(body)
    problems = call.problems.all()
    if problems and not (checks is RequestChecks.LOG and call.problems.are_findings):
        raise InvalidCallError(description.name, operation.id, problems)
    if isinstance(options.get("data"), bytes):
        sent.setdefault("Content-Type", operation.body.media_type if operation.body else "application/json")
    return PreparedCall(
        method=operation.method, url=url, params=params, headers=sent, options=options, findings=problems
    )


class _Call:
    def __init__(self, description: Description, operation: Operation) -> None:
        self._schemas = description.schemas
        self._operation = operation
        self.problems = _Problems()

    def path(self, given: Mapping[str, Any]) -> str:
        url = self._operation.path
        known = {item.name for item in self._in("path")}
        self._unknown("path", set(given) - known, known)
        for parameter in self._in("path"):
            if parameter.name not in given:
                self.problems.add(f"path.{parameter.name}: is needed")
                continue
            value = self._checked(parameter, given[parameter.name])
            text = listed(value)
            if text in ("", ".", ".."):
                self.problems.add(f"path.{parameter.name}: must not be empty, '.' or '..'")
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
                self._check_names(parameter, value)
                found += query_pairs(parameter.name, value, style=parameter.style, explode=parameter.explode)
            elif parameter.required and parameter.name not in paged:
                self.problems.add(f"query.{parameter.name}: is needed")
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
                    self.problems.add(f"headers.{parameter.name}: is needed")
                continue
            written, value = lower[name]
            value = self._checked(parameter, value)
            text = listed(value)
            if parameter.location == "cookie":
                sent.pop(written, None)
                cookies.append(f"{parameter.name}={quote(text, safe='')}")
            else:
                sent[written] = text
        self.problems.add(
            *(
                f"headers.{name}: must not have line breaks or other control characters"
                for name, text in sent.items()
                if _CONTROL.search(name) or _CONTROL.search(text)
            )
        )
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        return sent

    def body(self, given: Any) -> dict[str, Any]:
        described = self._operation.body
        if described is None and given is not None:
            self.problems.add("body: the operation has none")
        if described is not None and described.required and given is None:
            self.problems.add("body: is needed")
        if self._operation.document:
            return {"json": self._document(given)}
        if described is None or given is None:
            return {}
        media_type = described.media_type.partition(";")[0].strip().lower()
        if is_json(media_type):
            content = encode(given)
            self.problems.add_findings(self._schemas.findings(described.schema, json.loads(content), "body"))
            return {"data": content.encode()}
        if media_type in (FORM, MULTIPART) and isinstance(given, Mapping):
            return {"data": self._form(given, media_type)}
        if isinstance(given, str):
            given = given.encode()
        return {"data": given}

    def _document(self, given: Any) -> dict[str, Any]:
        """A request of GraphQL, with the body as its variables."""
        variables = {} if given is None else json.loads(encode(given))
        if given is not None and self._operation.body is not None:
            self.problems.add_findings(self._schemas.findings(self._operation.body.schema, variables, "body"))
        return {
            "query": self._operation.document,
            "operationName": self._operation.id,
            "variables": variables,
        }

    def _form(
        self, given: Mapping[str, Any], media_type: str
    ) -> aiohttp.FormData | dict[str, str | list[str]]:
        fields = {name: value for name, value in given.items() if value is not None}
        schema = self._schemas.resolved(self._operation.body.schema if self._operation.body else {})
        required = schema.get("required", ())
        self.problems.add_findings(f"body.{name}: is needed" for name in required if name not in fields)
        if media_type == FORM:
            return _grouped(pair for name, value in fields.items() for pair in repeated(name, _plain(value)))
        form = aiohttp.FormData(default_to_multipart=True)
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
        self.problems.add_findings(self._schemas.findings(parameter.schema, plain, at))
        return plain

    def _check_names(self, parameter: Parameter, value: Any) -> None:
        """An exploded object has no names but those of its description: its keys may come from others."""
        schema = self._schemas.resolved(parameter.schema)
        if schema.get("additionalProperties") not in (None, False):
            return
        unknown = unknown_names(
            value,
            schema or {"type": "object"},
            self._schemas.resolved,
            style=parameter.style or "form",
            explode=parameter.explode,
        )
        self.problems.add(
            *(f"query.{parameter.name}: has no property {name[:64]!r}" for name in (unknown or ())[:5])
        )

    def _in(self, location: str) -> Iterator[Parameter]:
        return (item for item in self._operation.parameters if item.location == location)

    def _unknown(self, where: str, names: set[str], known: set[str]) -> None:
        there = ", ".join(map(repr, sorted(known))) or "none"
        self.problems.add(
            *(
                f"{where}.{name}: is no parameter of the operation (there are: {there})"
                for name in sorted(names)
            )
        )


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Pairs as aiohttp takes them: the values of a name together."""
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    return {name: texts if len(texts) > 1 else texts[0] for name, texts in found.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else json.loads(encode(value))
