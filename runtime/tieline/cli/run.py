"""``tieline run``: serves a project, and deploys it again whenever its files change."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from tieline.cli.check import CheckReport, check, shown
from tieline.cli.file_watcher import SelfModifiedFiles, Stamp, changed, stamp
from tieline.cli.log_format import readable
from tieline.cli.server_process import SAFE_PATH, ServerProcess
from tieline.cli.task_list import task_lines
from tieline.cli.written_files import RECORD, WrittenFiles
from tieline.configuration.project_folder import Folder, FolderError
from tieline.server.write_watcher import WHAT_TO_DO, is_visible

_POLL_SECONDS = 0.3
_RESTART_AFTER = 1.0
STATE = ".tieline/state.json"
"""Where ctx.state is kept; hidden, so that it is neither deployed nor watched."""

Say = Callable[[str], None]
FindFolder = Callable[[], Folder]
"""Finds the project's folder and its files; raises FolderError."""


def run(find_folder: FindFolder, *, host: str, port: int, modules: Collection[str] = ()) -> int:
    """Serve the project that ``find_folder`` finds until Ctrl-C; 1 when the project cannot be served at all.

    ``modules`` are those of the project's own image.
    """
    try:
        # Port 0 is a free one; without SO_REUSEPORT nobody else can take part.
        listener = socket.create_server((host, port))
    except OSError as error:
        print(
            f"tieline: Port {port} cannot be listened on: {error.strerror}; choose another by --port",
            file=sys.stderr,
        )
        return 1
    terminal = sys.stdout.isatty()
    with listener, tempfile.TemporaryDirectory() as scratch:
        record = Path(scratch, "outputs")
        # For all processes that run the code.
        os.environ[RECORD] = str(record)
        server = DevServer(
            find_folder,
            listener=listener,
            env=os.environ,
            say=lambda text: print(text, flush=True),
            # Without a terminal something reads the lines, so they stay what pods write.
            show=_print_readable if terminal else _print,
            outputs=WrittenFiles(record),
            modules=modules,
        )
        return asyncio.run(server.serve())


def once(
    folder: Folder, task: str, *, user: str | None, payload: Any = None, modules: Collection[str] = ()
) -> int:
    """Run a schedule or an event now; 1 when the project is refused, or a run fails."""
    report = check(folder, modules=modules, here=True)
    for finding in report.findings:
        print(shown(finding), file=sys.stderr)
    if not report.ok:
        return 1
    arguments = [task, json.dumps(user), json.dumps(payload)]
    command = [sys.executable, "-m", "tieline.cli.run_once", *arguments]
    own = environment(folder, os.environ, report.packages)
    env = {**own, "TIELINE_CODE_DIR": str(folder.code.resolve()), **SAFE_PATH}
    show = _print_readable if sys.stdout.isatty() else _print
    with subprocess.Popen(  # noqa: S603  (this very package)
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            show(line.rstrip("\n"))
    return process.returncode


def replay(folder: Folder, file: Path, *, modules: Collection[str] = ()) -> int:
    """Run the last attempt of a recorded run; 1 when the project is refused, or the run fails.

    The process has this one's terminal, so that ``breakpoint()`` works in the code.
    """
    report = check(folder, modules=modules, here=True)
    for finding in report.findings:
        print(shown(finding), file=sys.stderr)
    if not report.ok:
        return 1
    command = [sys.executable, "-m", "tieline.cli.run_replay", str(file.resolve())]
    own = environment(folder, os.environ, report.packages)
    env = {**own, "TIELINE_CODE_DIR": str(folder.code.resolve()), **SAFE_PATH}
    with contextlib.suppress(KeyboardInterrupt):
        return subprocess.call(command, env=env)  # noqa: S603  (this very package)
    return 1


def environment(folder: Folder, env: Mapping[str, str], packages: Path | None = None) -> dict[str, str]:
    """The environment variables of a process that runs the project's code, with the packages in a folder."""
    own = {**env, "TIELINE_PROJECT_NAME": folder.name, "TIELINE_ENVIRONMENT": "local"}
    # This is no pod: the API is not asked.
    own.pop("TIELINE_API_URL", None)
    own.pop("TIELINE_PACKAGES_DIR", None)
    if packages is not None:
        own["TIELINE_PACKAGES_DIR"] = str(packages)
    own["TIELINE_STATE_FILE"] = str(folder.code.resolve() / STATE)
    if folder.connections is not None:
        own["TIELINE_CONNECTIONS_FILE"] = str(folder.connections.resolve())
    if folder.schema is not None:
        own["TIELINE_VARIABLES_SCHEMA_FILE"] = str(folder.schema.resolve())
    return own


@dataclass(eq=False)
class DevServer:
    """One project on one's own machine."""

    find_folder: FindFolder
    _: KW_ONLY
    listener: socket.socket
    env: Mapping[str, str]
    say: Say
    show: Say
    outputs: WrittenFiles
    modules: Collection[str] = ()
    _self_modified: SelfModifiedFiles = field(default_factory=SelfModifiedFiles)
    _deployed_at: float = 0.0
    _version: int = 0
    _packages: Path | None = None
    _worker: ServerProcess | None = None

    def __post_init__(self) -> None:
        self._folder = self.find_folder()

    @property
    def url(self) -> str:
        """Where webhooks are served."""
        host, port = self.listener.getsockname()[:2]
        shown = "localhost" if host in {"0.0.0.0", "127.0.0.1", "::", "::1"} else host  # noqa: S104
        return f"http://{shown}:{port}"

    async def serve(self) -> int:
        """Serve until SIGINT or SIGTERM; 1 when the first version cannot be served."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        try:
            seen = stamp(self._folder)
            if not await self._deploy():
                return 1
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POLL_SECONDS)
                await self._restart_ended(stop)
                with contextlib.suppress(FolderError):
                    # A connections file may have come, or gone.
                    self._folder = self.find_folder()
                now = stamp(self._folder)
                self._report_outputs(self.outputs.refresh())
                if self._has_changes(seen, now) and not stop.is_set():
                    await self._deploy()
                seen = now
            return 0
        finally:
            if self._worker is not None:
                await self._worker.stop()

    def _has_changes(self, seen: Stamp, now: Stamp) -> bool:
        """Whether anything has changed that the code has not written itself."""
        paths = changed(seen, now, outputs=self.outputs.paths)
        if not paths:
            return False
        self_modified = self._self_modified.found(paths, seconds=time.monotonic() - self._deployed_at)
        self.outputs.paths |= self_modified
        self._report_outputs(self_modified)
        return bool(paths - self_modified)

    def _report_outputs(self, paths: Collection[str]) -> None:
        root = os.path.join(self._folder.code.resolve(), "")
        for path in sorted(paths):
            if is_visible(path, self._folder.code):
                self.say(
                    f"{path.removeprefix(root)} is written by the code itself: its changes deploy nothing, and "
                    f"{WHAT_TO_DO}"
                )

    async def _deploy(self) -> bool:
        """As in the cluster: checked first, then a new process beside the old one, which ends once it is ready."""
        report = await asyncio.to_thread(check, self._folder, modules=self.modules, here=True)
        try:
            return await self._started(report)
        finally:
            self._deployed_at = time.monotonic()

    async def _started(self, report: CheckReport) -> bool:
        for finding in report.findings:
            self.say(shown(finding))
        if not report.ok:
            return self._refused()
        self._version += 1
        self._packages = report.packages
        worker = self._new_worker()
        if not await worker.start():
            return self._refused()
        old, self._worker = self._worker, worker
        if old is not None:
            await old.stop()
        self._report(report)
        return True

    async def _restart_ended(self, stop: asyncio.Event) -> None:
        """A server that ended by itself is started again, as a pod's would be; requests wait meanwhile."""
        if self._worker is None or self._worker.exit_code is None:
            return
        self.say(f"The server ended with {self._worker.exit_code}; starting it again")
        await self._worker.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _RESTART_AFTER)
        if not stop.is_set():
            self._worker = self._new_worker()
            await self._worker.start()

    def _new_worker(self) -> ServerProcess:
        return ServerProcess(
            code=self._folder.code, listener=self.listener, env=self._environment(), show=self.show
        )

    def _refused(self) -> bool:
        self.say(
            f"The version before goes on serving {self.url}; correct the files to deploy them"
            if self._worker
            else "The project cannot be served"
        )
        return False

    def _report(self, report: CheckReport) -> None:
        self.say(f"Serving {self._folder.name} (version {self._version})")
        for line in task_lines(report.loaded, self.url) if report.loaded else ():
            self.say(line)

    def _environment(self) -> dict[str, str]:
        own = environment(self._folder, self.env, self._packages)
        return {**own, "TIELINE_VERSION": str(self._version), "TIELINE_PUBLIC_URL": self.url}


def _print_readable(line: str) -> None:
    print(readable(line, colour="NO_COLOR" not in os.environ), flush=True)


def _print(line: str) -> None:
    print(line, flush=True)
