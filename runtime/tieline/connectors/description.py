"""Descriptions of connectors beside the code: ``connectors/shop.json``, written by ``tieline connectors add``."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tieline.connectors.schemas import Schema, Schemas
from tieline.errors import TielineError

FOLDER = "connectors"
FORMAT = 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ConnectorDescriptionError(TielineError):
    """There is no description of a connector beside the code, or it cannot be used.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         await ctx.call("billing", "listInvoices")
    ...     except ConnectorDescriptionError as error:
    ...         return str(error)
    >>> run(orders)
    'There is no connectors/billing.json beside main.py; write it by `tieline connectors add billing`, or name …'
    """


class UnknownOperationError(TielineError):
    """The code calls an operation that the connector's description does not have.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         await ctx.call("shop", "getOrders")
    ...     except UnknownOperationError as error:
    ...         return str(error)
    >>> run(orders)
    "The description of shop has no operation 'getOrders'; did you mean 'getOrder' or 'listOrders'? …"
    """

    def __init__(self, connector: str, operation: str, known: Mapping[str, object]) -> None:
        near = " or ".join(map(repr, difflib.get_close_matches(operation, known, n=2)))
        meant = f"; did you mean {near}?" if near else f"; it has {len(known)} others."
        super().__init__(
            f"The description of {connector} has no operation {operation!r}{meant} `tieline connectors add` writes "
            f"the operations that you name"
        )


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What an operation takes beside its body."""

    name: str
    location: str
    """``path``, ``query``, ``header`` or ``cookie``."""
    required: bool = False
    schema: Schema = field(default_factory=dict)
    style: str = ""
    """How lists and objects are written, where that is not the usual form; as in OpenAPI."""
    explode: bool = True
    """Whether each item of a list in the query is a parameter of its own."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of a request, or of an answer."""

    media_type: str = ""
    schema: Schema = field(default_factory=dict)
    required: bool = False
    example: Any = None


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Something that the external system can be asked."""

    id: str
    method: str
    path: str
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[str, Body | None] = field(default_factory=dict)
    """By status (``200``), range (``2XX``) or ``default``; None for an answer without a body."""
    pages: Mapping[str, Any] | None = None
    """How a list's pages follow each other; see ``tieline.connectors.paging``."""
    document: str = ""
    """What is sent to the System's GraphQL endpoint, with the body as its variables; empty for other operations.

    The schemas of its answers are those of ``data``.
    """

    def answer(self, status: int) -> tuple[bool, Body | None]:
        """Whether the description knows answers of a status, and their body."""
        for key in (str(status), f"{status // 100}XX", "default"):
            if key in self.answers:
                return True, self.answers[key]
        return False, None

    @property
    def success(self) -> int:
        """The lowest status of a success that the description names; 200 where it names none."""
        found = [int(key.replace("XX", "00")) for key in self.answers if key != "default"]
        return min((status for status in found if 200 <= status < 300), default=200)


@dataclass(frozen=True, kw_only=True)
class Description:
    """The operations of one connector's version, with the schemas that they use."""

    name: str
    """The file's name, without its ending."""
    title: str
    version: str
    operations: Mapping[str, Operation]
    schemas: Schemas

    def operation(self, name: str) -> Operation:
        """An operation by its id. Raises UnknownOperationError."""
        found = self.operations.get(name)
        if found is None:
            raise UnknownOperationError(self.name, name, self.operations)
        return found


class Descriptions:
    """The descriptions in a project's folder; each is read when it is first used."""

    def __init__(self, code: Path | None = None) -> None:
        self._code = code
        self._read: dict[str, Description] = {}

    def get(self, name: str) -> Description:
        """The description of this name. Raises ConnectorDescriptionError."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self._load(name)
        return found

    def _path(self, name: str) -> Path | None:
        if self._code is None or not _NAME.fullmatch(name):
            return None
        return self._code / FOLDER / f"{name}.json"

    def _load(self, name: str) -> Description:
        path = self._path(name)
        try:
            if path is None:
                raise FileNotFoundError
            content = path.read_bytes()
        except FileNotFoundError:
            raise ConnectorDescriptionError(
                f"There is no {FOLDER}/{name}.json beside main.py; write it by `tieline connectors add {name}`, or "
                "name another one by connector="
            ) from None
        try:
            return parse(name, orjson.loads(content))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConnectorDescriptionError(
                f"{FOLDER}/{name}.json cannot be read ({error}); write it again by `tieline connectors add`"
            ) from error


def parse(name: str, content: Mapping[str, Any]) -> Description:
    """A description from its file's content. Raises KeyError, TypeError, ValueError or AttributeError."""
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r}, and this release of Tieline reads {FORMAT}")
    connector = content["connector"]
    return Description(
        name=name,
        title=connector["name"],
        version=connector["version"],
        operations={key: _operation(key, item) for key, item in content["operations"].items()},
        schemas=Schemas(content["schemas"]),
    )


def _operation(key: str, item: Mapping[str, Any]) -> Operation:
    body = item.get("body")
    return Operation(
        id=key,
        method=item["method"],
        path=item["path"],
        summary=item.get("summary", ""),
        parameters=tuple(map(_parameter, item.get("parameters", ()))),
        body=_body(body) if body is not None else None,
        answers={
            status: _body(answer) if answer else None for status, answer in item.get("answers", {}).items()
        },
        pages=item.get("pages"),
        document=item.get("document", ""),
    )


def _parameter(item: Mapping[str, Any]) -> Parameter:
    return Parameter(
        name=item["name"],
        location=item["in"],
        required=item.get("required", False),
        schema=item.get("schema", {}),
        style=item.get("style", ""),
        explode=item.get("explode", True),
    )


def _body(item: Mapping[str, Any]) -> Body:
    return Body(
        media_type=item.get("mediaType", ""),
        schema=item.get("schema", {}),
        required=item.get("required", False),
        example=item.get("example"),
    )
