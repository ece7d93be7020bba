"""Which of the machine's slots a cluster has: the number that its ports, subnets and interface names come from."""

import fcntl
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path

from tieline_cluster.definition.plan import SLOTS, Plan
from tieline_cluster.errors import ClusterError


def claim(make: Callable[[int], Plan], *, known: int | None, routed: list[IPv4Network]) -> Plan:
    """The plan for the slot that the cluster has (`known`), or for the first that is free.

    A slot is free when no other cluster has claimed it, nothing listens on its ports and no route overlaps its
    subnets. Raises ClusterError when none is, or when another cluster has taken the one that this had.
    """
    with _claiming(make(0).run.parent):
        if known is not None:
            plan = make(known)
            if _owner(plan) not in {None, str(plan.state)}:
                raise ClusterError(
                    f"The cluster {plan.name} had slot {known}, which {_owner(plan)} has now: "
                    f"take that one down, or start anew with `down --name {plan.name}`"
                )
            _take(plan)
            return plan
        for slot in range(SLOTS):
            plan = make(slot)
            if (
                _owner(plan) in {None, str(plan.state)}
                and not conflicts(plan, routed)
                and _ports_are_free(plan)
            ):
                _take(plan)
                return plan
    raise ClusterError(
        "No free slot for another cluster: take one down (`status` lists them), or choose --port, --pod-subnet "
        "and --service-subnet that nothing on this machine uses"
    )


def claimed(run: Path, state: Path) -> int | None:
    """The slot that the cluster in `state` has claimed, by the run folders alone."""
    owners = ((path.parent.name, path.read_text()) for path in run.glob("[0-9]*/owner"))
    return next((int(slot) for slot, owner in owners if owner == str(state)), None)


def release(plan: Plan, *, last: Callable[[], None]) -> None:
    """Give the slot up and remove its run folder; `last` is called when no cluster is left that has a slot."""
    with _claiming(plan.run.parent):
        if _owner(plan) in {None, str(plan.state)}:
            shutil.rmtree(plan.run, ignore_errors=True)
        if not any(plan.run.parent.glob("[0-9]*")):
            last()
            with suppress(OSError):
                plan.run.parent.rmdir()


def conflicts(plan: Plan, routed: list[IPv4Network]) -> list[IPv4Network]:
    """The routes that overlap the plan's subnets."""
    own = plan.pod_subnet, plan.service_subnet
    return [network for network in routed if any(network.overlaps(subnet) for subnet in own)]


def _owner(plan: Plan) -> str | None:
    try:
        owner = (plan.run / "owner").read_text()
    except OSError:
        return None
    # A state folder that somebody has deleted by hand owns nothing any more.
    return owner if Path(owner).is_dir() else None


def _take(plan: Plan) -> None:
    plan.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    plan.run.mkdir(parents=True, exist_ok=True)
    (plan.run / "owner").write_text(str(plan.state))


def _ports_are_free(plan: Plan) -> bool:
    for port in plan.ports.all():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


@contextmanager
def _claiming(folder: Path) -> Iterator[None]:
    """One claim or release at a time. The folder itself is locked, so that no lock file is left behind."""
    descriptor = _lock(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # The last cluster's release removes the folder: what was waited for may be one that is gone.
        if folder.exists() and os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return descriptor
        os.close(descriptor)
