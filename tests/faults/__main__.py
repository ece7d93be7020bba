"""``make faults``: rounds of operations and faults on a cluster of its own; the seed decides what happens.

The choices of a seed are always the same; how processes interleave is not, so a failure may need a few tries.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.checks_self_test import UnnoticedError, sabotage
from tests.faults.cluster import FaultyCluster
from tests.faults.ha_platform import FAKETIME, Stage
from tests.faults.history import DivergedError, History
from tests.faults.worker import Log
from tieline_cluster.image_build import debian_packages
from tieline_cluster.progress import Lines, Progress


def run(
    *,
    cluster: str,
    seed: int,
    rounds: int,
    seconds: float,
    folder: Path,
    progress: Progress,
    pause: float = 1.5,
    keep: bool = False,
    image: str = "",
) -> None:
    """Raises DivergedError where an end is not what it must be, and UnnoticedError where the checks do not see harm."""
    log = Log(progress.note)
    faulty = FaultyCluster(cluster, progress)
    stage = Stage(faulty, folder, mark=f"hush{secrets.token_hex(6)}", image=image)
    if not keep:
        faulty.down()
    try:
        with progress.step("Bringing up the platform"):
            stage.start()
        history = History(stage, seed, log, pause=pause)
        history.begin()
        for number in range(1, rounds + 1):
            history.round(number, seconds)
        log.note("Breaking the end on purpose, to see that it is noticed", shown=True)
        sabotage(history, history.peace())
    except (DivergedError, UnnoticedError):
        faulty.keep_logs(folder / "cluster")
        raise
    finally:
        stage.stop()
        if not keep:
            faulty.down()


def _install(progress: Progress) -> None:
    """What the cluster needs, and the library that sets clocks."""
    debian_packages.install_missing(
        debian_packages.NODE_PACKAGES | debian_packages.IMAGE_PACKAGES | {str(FAKETIME): "libfaketime"},
        progress,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what happens; default: the time")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=120, help="operations and faults of a round")
    parser.add_argument("--cluster", default="faults", help="the name of its cluster, which is made anew")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up, and take one that is up")
    parser.add_argument(
        "--image", default="", help="a runtime image that the cluster has, instead of this checkout's"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = Lines()
    _install(progress)
    began = time.monotonic()
    progress.note(f"Seed {given.seed}: make faults SEED={given.seed} does the same again")
    folder = Path(tempfile.mkdtemp(prefix="tieline-faults-"))
    try:
        run(
            cluster=given.cluster,
            seed=given.seed,
            rounds=given.rounds,
            seconds=given.seconds,
            folder=folder,
            progress=progress,
            keep=given.keep,
            image=given.image,
        )
    except (DivergedError, UnnoticedError) as error:
        print(error, file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    progress.note(f"All held, after {(time.monotonic() - began) / 60:.1f} minutes (seed {given.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
