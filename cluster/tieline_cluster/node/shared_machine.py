"""What all clusters on a machine share: changed by the first, put back by the last."""

import contextlib
import json
import os
import shutil
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.components import FIXED_FOLDERS
from tieline_cluster.definition.plan import Plan
from tieline_cluster.node.network import FORWARDING


def prepare(plan: Plan) -> None:
    """Make the folders that the node's mount namespace covers, and remember what was there before."""
    remembered = _remembered(plan)
    if not remembered.exists():
        absent = [folder for folder in FIXED_FOLDERS if not Path(folder).exists()]
        remembered.write_text(json.dumps({"forwarding": FORWARDING.read_text(), "folders": absent}))
    for folder in FIXED_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)


def restore(plan: Plan) -> None:
    """Put back what was there before: only when no cluster is left.

    The folders must stay while another cluster lives: removing a folder unmounts what covers it elsewhere.
    """
    remembered = _remembered(plan)
    if not remembered.exists():
        return
    before = json.loads(remembered.read_text())
    FORWARDING.write_text(before["forwarding"])
    for folder in before["folders"]:
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    remembered.unlink()


def delete_folder(folder: Path) -> None:
    """Delete a folder, after unmounting whatever an older or foreign program has mounted in it."""
    for mount in mounts_below(folder, Path("/proc/self/mountinfo").read_text()):
        run(["umount", "--lazy", mount])
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # Something may have been creating files at that moment; a second failure is told.
        shutil.rmtree(folder)


def mounts_below(folder: Path, mountinfo: str) -> list[str]:
    """The mount points below `folder`, the deepest first (proc(5), mountinfo: the fifth field, in octal escapes)."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    below = [point for point in points if point.startswith(f"{folder}{os.sep}")]
    return sorted(below, key=len, reverse=True)


def _remembered(plan: Plan) -> Path:
    return plan.run.parent / "machine-before"
