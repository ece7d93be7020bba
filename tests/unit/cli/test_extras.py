"""What commands load: those whose extra is not installed name it, and none loads the SDK to start."""

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
        f"tieline-{part}: {package} is missing; run `pip install 'tieline-platform[{part}]'`\n",
    )


def test_the_command_line_starts_without_the_sdk() -> None:
    heavy = {"aiohttp", "tieline.context", "nats", "graphql"}
    code = f"import sys, tieline.cli.application; print({heavy} & set(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "set()"
