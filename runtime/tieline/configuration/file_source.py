"""Configuration from a file, for your own machine and for tests."""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from tieline.configuration.connections_file import parsed, read, text_of
from tieline.configuration.current import Publish
from tieline.configuration.snapshot import Snapshot, parse
from tieline.errors import ConfigurationError

logger = logging.getLogger("tieline.configuration")


@dataclass(eq=False)
class FileSource:
    """Reads a connections file at the start and again whenever it, or a file that it names, changes.

    ``schema`` is a file with the project's schema of variables, in the place of the connections file's own.
    """

    path: Path | None
    _: KW_ONLY
    schema: Path | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    every: float = 1.0

    async def run(self, publish: Publish) -> None:
        """Publish the file's content; a file that cannot be read later on leaves what is there."""
        seen = self._read()
        publish(self._parsed(seen))
        refused = ""
        while True:
            await asyncio.sleep(self.every)
            try:
                body = self._read()
                if body == seen:
                    refused = ""
                    continue
                publish(self._parsed(body))
                seen, refused = body, ""
                logger.info("Read the changed connections file %s", self.path or self.schema)
            except ConfigurationError as error:
                if str(error) != refused:
                    logger.warning("Keeping the last configuration: %s", error)
                refused = str(error)

    def snapshot(self) -> Snapshot:
        """What the file says now; raises ConfigurationError."""
        return self._parsed(self._read())

    def _parsed(self, body: dict[str, Any]) -> Snapshot:
        name = self.path.name if self.path else "connections.yaml"
        return replace(parse(body), file=name)

    def _read(self) -> dict[str, Any]:
        body = read(self.path, self.env) if self.path else {}
        if self.schema:
            body["variablesSchema"] = parsed(self.schema, text_of(self.schema))
        return body
