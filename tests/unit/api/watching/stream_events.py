"""Events as a client of a stream reads them."""

import asyncio
import json
from typing import Any


async def said(answer: Any) -> dict[str, Any]:
    """The data of the next event."""
    while line := await asyncio.wait_for(answer.content.readline(), 10):
        if line.startswith(b"data: "):
            found: dict[str, Any] = json.loads(line[6:])
            return found
    raise EOFError
