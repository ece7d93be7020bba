"""The console's files, built when they are not."""

import subprocess
from pathlib import Path

from tests.harness.cluster.kubectl import ROOT

CONSOLE = ROOT / "console"
TIMEOUT = 600


def built_console() -> Path:
    """The folder with the built files of this checkout."""
    done = subprocess.run([CONSOLE / "build"], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return CONSOLE / "dist"
