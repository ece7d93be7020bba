"""What a cluster leaves on a machine, found by looking at the machine and not at the tool's records."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tieline_cluster.node.builtin import BuiltIn


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def kubectl(provider: BuiltIn, *arguments: str, stdin: str = "") -> str:
    cluster = provider.running()
    assert cluster is not None
    hyperkube = Path(f"/proc/{provider.components()['kube-apiserver']}/exe").resolve()
    argv = [str(hyperkube), "kubectl", "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


def slot_of(provider: BuiltIn) -> int:
    cluster = provider.running()
    assert cluster is not None
    slot: int = json.loads((cluster.kubeconfig.parent / "cluster.json").read_text())["slot"]
    return slot


def of_cluster(state: Path, slot: int) -> dict[str, list[str]]:
    """Everything with the cluster's name or number on it, by kind; empty lists where there is nothing."""
    mounts = [
        line.split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(state) in line or f"/run/tieline/{slot}" in line
    ]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/tieline-{slot}")]
    tables = output("nft", "list", "tables") if shutil.which("nft") else ""
    names = {f"tieline-{slot}", f"tieline-{slot}-services"}
    links = [link["ifname"] for link in json.loads(output("ip", "-j", "link"))]
    addresses = output("ip", "-o", "-4", "address")
    return {
        "processes": [str(pid) for pid in processes(state, slot)],
        "mounts": mounts,
        "control groups": groups,
        "nft tables": [line for line in tables.splitlines() if line.split()[-1] in names],
        "interfaces": [name for name in links if name == f"tieline{slot}"],
        "addresses": [line for line in addresses.splitlines() if f" 10.{112 + slot}." in line],
        "folders": [str(path) for path in (state, Path(f"/run/tieline/{slot}")) if path.exists()],
        "network state": [str(path) for path in Path("/var/lib/cni").glob(f"**/*tieline-{slot}*")],
        "log links": [
            str(path) for path in Path("/var/log/containers").glob("*") if str(state) in os.readlink(path)
        ],
    }


def processes(state: Path, slot: int) -> list[int]:
    """Programs and containers whose command line, environment or cgroup names the cluster."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(entry / name).read_bytes() for name in ("cmdline", "environ", "cgroup")]
        except OSError:
            continue
        needles = f"{state}/".encode(), f"={state}\0".encode(), f"/tieline-{slot}/".encode()
        if (
            any(needle in text + b"\0" for needle in needles for text in texts)
            and int(entry.name) != os.getpid()
        ):
            found.append(int(entry.name))
    return found


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
