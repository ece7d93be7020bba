"""Answers of operations: read as the description says, and checked against it."""

from codecs import BOM_UTF8
from enum import StrEnum
from typing import Any

import aiohttp
import orjson

from tieline.connectors.description import Description, Operation
from tieline.errors import TielineError
from tieline_protocol.openapi_parameters import is_json

_MAX_REPORTED = 1_000


class AnswerChecks(StrEnum):
    """What happens when an answer does not follow the description."""

    OFF = "off"
    LOG = "log"
    RAISE = "raise"


class UnexpectedAnswerError(TielineError):
    """An external system's answer cannot be read, or does not follow the connector's description.

    In pods, answers that do not follow it are logged, once for each operation and status, and returned as they are; in
    tests they raise this error.

    >>> async def order(ctx: Context) -> str:
    ...     try:
    ...         await ctx.call("shop", "getOrder", path={"id": "broken"})
    ...     except UnexpectedAnswerError as error:
    ...         return str(error)
    >>> run(order)
    'shop getOrder answered 200 with what its description does not say: answer.id: is not of type …'
    """

    def __init__(self, connector: str, operation: str, status: int, problems: list[str]) -> None:
        super().__init__(
            f"{connector} {operation} answered {status} with what its description does not say: {'; '.join(problems)}"
        )
        self.status = status
        self.problems = problems
        """Each names its field, and not its value."""


class Reported:
    """What was logged already: a system whose answers differ does so many times."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, int]] = set()

    def is_new(self, connector: str, operation: str, status: int) -> bool:
        """Whether this was never reported; from then on it was."""
        key = (connector, operation, status)
        if key in self._known or len(self._known) >= _MAX_REPORTED:
            return False
        self._known.add(key)
        return True


async def read(description: Description, operation: Operation, response: aiohttp.ClientResponse) -> Any:
    """The body of a success: JSON data, a text, bytes, or None for an empty one.

    Raises UnexpectedAnswerError for JSON that cannot be read.
    """
    content = await response.read()
    if not content:
        return None
    _, body = operation.answer(response.status)
    declared = response.headers.get("Content-Type", "")
    media_type = declared or (body.media_type if body else "")
    expects_json = body is not None and is_json(body.media_type)
    if is_json(media_type) or expects_json:
        try:
            return orjson.loads(content.removeprefix(BOM_UTF8))
        except ValueError:
            if is_json(media_type):
                problem = "answer: is declared as JSON, and is none"
                raise UnexpectedAnswerError(
                    description.name, operation.id, response.status, [problem]
                ) from None
    return await response.text() if media_type.lower().startswith("text/") else content


def problems_of(description: Description, operation: Operation, status: int, value: Any) -> list[str]:
    """What an answer has that the description does not say."""
    known, body = operation.answer(status)
    if not known:
        return [f"status: {status} is not described"] if operation.answers else []
    # Many descriptions leave bodies out.
    if body is None or not is_json(body.media_type):
        return []
    if value is None:
        return ["answer: is empty"] if body.schema else []
    return description.schemas.findings(body.schema, value, "answer")
