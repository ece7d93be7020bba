"""The official TypeScript client of the Model Context Protocol: installed once into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.harness.cluster.kubectl import ROOT
from tieline_cluster.image_build.debian_packages import install_missing
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Lines

PROGRAMS = {"node": "nodejs", "npm": "npm"}
_SOURCES = ROOT / "tests/harness/mcp_client"
_SECONDS = 300


def installed() -> Path:
    """The folder with the client, and with ``in_browser.js`` for pages. Safe to call in several processes at once."""
    install_missing(PROGRAMS, Lines())
    files = sorted(path for path in _SOURCES.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    folder = cache_folder() / "mcp-client" / digest
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bundle = folder / "in_browser.js"
        if not bundle.exists():
            for path in files:
                shutil.copy(path, folder)
            _run(folder, "npm", "ci", "--no-progress", "--loglevel=error")
            command = ("in_browser.mjs", "--bundle", "--format=esm", "--log-level=error", "--outfile=made.js")
            _run(folder, "node_modules/.bin/esbuild", *command)
            (folder / "made.js").rename(bundle)
    return folder


def _run(folder: Path, *command: str) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stdout}{ended.stderr}"
