"""Configuration from a JSON file of the internal endpoint's shape, for development and tests."""

import asyncio
import json
import logging
from pathlib import Path

from tieline.configuration.current import Publish
from tieline.configuration.snapshot import Snapshot, parse
from tieline.errors import ConfigurationError

logger = logging.getLogger("tieline.configuration")


class FileSource:
    """Reads a file at the start and again whenever it changes."""

    def __init__(self, path: Path, *, every: float = 1.0) -> None:
        self._path = path
        self._every = every

    async def run(self, publish: Publish) -> None:
        """Publish the file's content; a file that cannot be read later on leaves what is there."""
        seen = self._content()
        publish(self.load(seen))
        while True:
            await asyncio.sleep(self._every)
            try:
                content = self._content()
                if content == seen:
                    continue
                seen = content
                publish(self.load(content))
                logger.info("Read the changed connections file %s", self._path)
            except ConfigurationError as error:
                logger.warning("Keeping the last configuration: %s", error)

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"The connections file {self._path} cannot be read: {error.strerror}"
            ) from error

    def load(self, content: bytes) -> Snapshot:
        """The snapshot in ``content``; raises ConfigurationError."""
        try:
            body = json.loads(content)
        except ValueError as error:
            raise ConfigurationError(f"The connections file {self._path} is not JSON: {error}") from error
        return parse(body)
