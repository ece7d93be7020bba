"""Redis and Postgres in a folder of their own, and the Python environment of the peers."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.harness.processes.ports import free_port
from tieline_cluster.paths import cache_folder

REQUIREMENTS = (
    "celery[redis]==5.7.0",
    "gevent==26.9.0",
    "procrastinate==3.10.0",
    "psycopg[binary,pool]==3.3.9",
    "dbos==3.4.0",
    "uvloop==0.23.0",
)
_START_SECONDS = 60.0
_INSTALL = "apt-get install -y --no-install-recommends redis-server postgresql"


def peers_python() -> Path:
    """The interpreter of an environment that has the peers, made when this machine has none yet."""
    key = hashlib.sha256("\n".join((sys.version, *REQUIREMENTS)).encode()).hexdigest()[:16]
    folder = cache_folder() / f"bench-events-{key}"
    if not (folder / "installed").exists():
        print("Installing the peers' packages", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *REQUIREMENTS], check=True)
        (folder / "installed").touch()
    return folder / "bin" / "python"


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """A server that syncs each write before it answers; gives its URL."""
    port = free_port()
    command = [
        _program("redis-server"), "--port", f"{port}", "--bind", "127.0.0.1", "--dir", f"{folder}",
        "--appendonly", "yes", "--appendfsync", "always", "--save", "",
    ]  # fmt: skip
    with _running(command, folder, lambda: redis(f"redis://127.0.0.1:{port}/0", "PING") == "PONG"):
        yield f"redis://127.0.0.1:{port}/0"


def redis(url: str, *command: str) -> str:
    """What the server answers."""
    port = url.rpartition(":")[2].partition("/")[0]
    return subprocess.run(
        [_program("redis-cli"), "-p", port, *command], capture_output=True, text=True, check=False
    ).stdout.strip()


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """A server with the defaults, which sync each commit before they answer; gives the URL of its database."""
    port = free_port()
    as_user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    data = folder / "data"
    subprocess.run(
        [*as_user, _postgres("initdb"), "-D", data, "-U", "postgres", "-A", "trust"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    command = [
        *as_user, _postgres("postgres"), "-D", f"{data}", "-p", f"{port}",
        "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}",
    ]  # fmt: skip
    url = f"postgresql://postgres@127.0.0.1:{port}"
    with _running(command, folder, lambda: sql(f"{url}/postgres", "SELECT 1") == "1"):
        for name in ("procrastinate", "dbos"):
            sql(f"{url}/postgres", f"CREATE DATABASE {name}")
        yield url


def sql(url: str, statement: str) -> str:
    """What psql prints."""
    return subprocess.run(
        [_postgres("psql"), url, "-tAc", statement], capture_output=True, text=True, check=False
    ).stdout.strip()


@contextmanager
def _running(command: Sequence[str], folder: Path, ready: Callable[[], bool]) -> Iterator[None]:
    log = (folder / "log").open("ab") if os.access(folder, os.W_OK) else subprocess.DEVNULL
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "INT", *command], stdout=log, stderr=log, cwd=folder
    )
    try:
        until = time.monotonic() + _START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                sys.exit(f"{command[0]} does not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(2)
        process.wait(30)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        sys.exit(f"The benchmark needs {name}: {_INSTALL}")
    return found


def _postgres(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return f"{found[-1]}" if found else _program(name)
