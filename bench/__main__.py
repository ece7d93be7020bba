"""``python -m bench``: measures the platform that ``.tieline/demo.env`` names and prints tables."""

import asyncio
import os
import platform as machine
import sys
from pathlib import Path

from bench import measures, rest
from bench.platform import deployed

DEMO = Path(__file__).resolve().parents[1] / ".tieline" / "demo.env"


def read_environment() -> None:
    """What the demo left for us, unless it is set already."""
    if "TIELINE_URL" in os.environ:
        return
    if not DEMO.exists():
        sys.exit("There is no platform to measure: run `make demo` first, or set TIELINE_URL and the rest")
    for line in DEMO.read_text(encoding="utf-8").splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        if value:
            os.environ[name.strip()] = value.strip().strip("'\"")
    # Without the port that is forwarded for browsers.
    os.environ["TIELINE_URL"] = os.environ.get("TIELINE_SERVICE_URL") or os.environ["TIELINE_URL"]


async def main() -> None:
    """Runs all measurements, the quiet ones first."""
    read_environment()
    print(f"Machine: {os.cpu_count()} cores, Python {machine.python_version()}, {machine.system()}\n")
    async with deployed() as platform:
        organisation, namespace = await platform.organisation()
        print(await measures.systems_to_ready(platform, namespace), flush=True)
        print(await measures.restart(platform), flush=True)
        print(await rest.measure(platform, organisation, namespace), flush=True)
        print(await measures.deploy_to_running(platform, namespace), flush=True)
        print(await measures.memory(platform), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
