"""HTTP answers, of a webhook and of a fake."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multidict import CIMultiDict


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, read as a whole.

    >>> Answer.of(201, json={"id": "7"}).json()
    {'id': '7'}
    """

    status: int
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes = b""

    @classmethod
    def of(
        cls,
        status: int = 200,
        *,
        json: Any = None,
        text: str | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> "Answer":
        """An answer with a body of JSON, of text, or of bytes."""
        made: CIMultiDict[str] = CIMultiDict()
        if json is not None:
            made["Content-Type"] = "application/json"
            body = dumps(json)
        elif text is not None:
            made["Content-Type"] = "text/plain; charset=utf-8"
            body = text.encode()
        made.update(headers or {})
        return cls(status=status, headers=made, body=body)

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    @property
    def execution_id(self) -> str:
        """The run's id, for an answer of a webhook."""
        return self.headers.get("X-Tieline-Execution-Id", "")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def dumps(value: Any) -> bytes:
    """``value`` as JSON."""
    return json.dumps(value).encode()
