"""Runs the command ``tieline`` as people do."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

COMMAND = (sys.executable, "-c", "from tieline.cli.main import main; main()")

MAIN = """\
from tieline import Context, Integration

integration = Integration()


@integration.webhook("where", methods=["GET"])
async def where(ctx: Context) -> dict:
    return {"answer": 1, "region": ctx.variables.get("region")}
"""


def project(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A project's folder with a sound main.py, and ``files``."""
    for name, content in {"main.py": MAIN, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tieline(
    *arguments: str, cwd: Path | None = None, typed: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The command's end; ``typed`` is its input."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Running:
    """``tieline run`` until the block ends; ``lines`` is what it has written."""

    def __init__(
        self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._folder = folder
        self._arguments = arguments
        self._cwd = cwd
        self._env = {**os.environ, **(env or {})}
        self.lines: list[str] = []
        self.code: int | None = None

    async def __aenter__(self) -> "Running":
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            "run",
            str(self._folder),
            "--port=0",
            *self._arguments,
            env=self._env,
            cwd=self._cwd,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        self.code = await asyncio.wait_for(self._process.wait(), 20)
        await self._reading

    async def said(self, words: str, *, times: int = 1) -> str:
        """Wait for a line with these words; the last one."""
        async with asyncio.timeout(30):
            while len(found := [line for line in self.lines if words in line]) < times:
                if self._reading.done():
                    raise AssertionError(f"It ended without saying {words!r}: {self.lines}")
                await asyncio.sleep(0.02)
        return found[-1]

    async def url(self) -> str:
        line = await self.said("http://")
        return line[line.index("http://") :].split()[0].rpartition("/")[0]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode().rstrip())
