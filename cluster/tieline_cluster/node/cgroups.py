"""The cgroup that a cluster's pods are below, in every hierarchy of the machine (cgroup v1 has many, v2 has one)."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tieline_cluster.errors import ClusterError
from tieline_cluster.processes import Process, end

CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
REMOVAL_TIMEOUT = 20.0


def hierarchies(mounts: str) -> list[Path]:
    """The mount points of cgroup hierarchies in the text of /proc/mounts."""
    fields = (line.split() for line in mounts.splitlines())
    return [Path(parts[1]) for parts in fields if len(parts) > 2 and parts[2] in {"cgroup", "cgroup2"}]


def make(name: str) -> None:
    """Make the cgroup in every hierarchy: the kubelet wants its root to be there."""
    for hierarchy in _mounted():
        group = hierarchy / name
        with contextlib.suppress(FileExistsError):
            group.mkdir()
        controllers = hierarchy / "cgroup.controllers"
        if controllers.exists():
            _delegate(hierarchy, controllers.read_text().split())
            continue
        # A cgroup v1 cpuset takes no process until it has been told its processors and memory nodes.
        for file in CPUSET_FILES:
            if (group / file).exists() and not (group / file).read_text().strip():
                (group / file).write_text((hierarchy / file).read_text())


def remove(name: str) -> None:
    """Kill every process in the cgroup and below, and remove it."""
    end(_processes(name), grace=0)
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    for hierarchy in _mounted():
        group = hierarchy / name
        while group.exists():
            _remove_tree(group)
            if not group.exists():
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"The cgroup {group} could not be removed: see which processes are in it")
            end(_processes(name), grace=0)
            time.sleep(0.05)


def _mounted() -> list[Path]:
    return hierarchies(Path("/proc/mounts").read_text())


def _delegate(hierarchy: Path, controllers: list[str]) -> None:
    for controller in controllers:
        # A controller that cannot be handed on here is one that pods' limits will do without.
        with contextlib.suppress(OSError):
            (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")


def _processes(name: str) -> Iterator[Process]:
    seen: set[int] = set()
    for hierarchy in _mounted():
        for folder, _, files in os.walk(hierarchy / name):
            if "cgroup.procs" not in files:
                continue
            with contextlib.suppress(OSError):
                seen.update(int(pid) for pid in Path(folder, "cgroup.procs").read_text().split())
    for pid in seen:
        process = Process.of(pid)
        if process is not None:
            yield process


def _remove_tree(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
