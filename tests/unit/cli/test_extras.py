"""Commands whose extra is not installed name it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("part", "package"), [("api", "kubernetes"), ("operator", "kopf")])
def test_a_command_names_the_extra_that_it_needs(part: str, package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"from tieline_{part}.command import main; sys.exit(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        f"tieline-{part}: {package} is missing; run `pip install 'tieline[{part}]'`\n",
    )
