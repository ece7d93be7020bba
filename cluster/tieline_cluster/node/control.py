"""Bringing a cluster's components into the state that is wanted: started, ready, and of the present configuration."""

import os
import shutil
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tieline_cluster.commands import last_lines
from tieline_cluster.definition.components import HOLDER, SYSTEM_PATH, Component
from tieline_cluster.definition.plan import Plan, fingerprint
from tieline_cluster.errors import ClusterError
from tieline_cluster.node import cgroups
from tieline_cluster.node.readiness import is_ready, wait_until
from tieline_cluster.processes import MARK, Process, ProcessRecords, end, marked, strays

STOP_GRACE = 3.0
"""Seconds: an API server would wait much longer for its watchers, and loses nothing when it is killed."""
NODE_FOLDERS = ("addresses", "pod-logs", "private")
"""What describes containers of the past: void once these are gone."""


class Control:
    """The running programs of one cluster."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._records = ProcessRecords(plan.state / "processes")

    def running(self) -> dict[str, Process]:
        """The programs that run, by component."""
        return self._records.all()

    def current(self, component: Component) -> bool:
        """Whether the component runs with the present configuration."""
        found = self._records.find(component.name)
        return found is not None and found[1] == _fingerprint(component)

    def healthy(self, components: Iterable[Component], context: ssl.SSLContext) -> list[bool]:
        """For each component, whether it is current and says that it is ready."""
        wanted = list(components)
        with ThreadPoolExecutor(len(wanted)) as pool:
            return list(pool.map(lambda one: self.current(one) and is_ready(one.ready, context), wanted))

    def end_strays(self) -> None:
        """End what a killed run has started but not recorded."""
        end(strays(self._plan.state, self._records.all().values()), grace=0)

    def start(self, components: Iterable[Component], context: ssl.SSLContext | None = None) -> None:
        """Start those that are not current (ending their predecessors), and wait until all are ready."""
        wanted = list(components)
        for component in wanted:
            if not self.current(component):
                self._start(component)
        for component in wanted:
            self._wait(component, context)

    def end_node(self) -> None:
        """End the container runtime, the kubelet and every container, and forget the containers' traces.

        The control plane goes on. Mounts are gone with the last process of the node's mount namespace.
        """
        recorded = self._records.all()
        node = [process for name, process in recorded.items() if name in {HOLDER, "containerd", "kubelet"}]
        end(node, grace=0)
        kept = set(recorded.values())
        end([process for process in marked(self._plan.state) if process not in kept], grace=0)
        cgroups.remove(self._plan.cgroup)
        shutil.rmtree(self._plan.run / "containerd", ignore_errors=True)
        for folder in NODE_FOLDERS:
            shutil.rmtree(self._plan.state / folder, ignore_errors=True)

    def end_all(self, *, grace: float) -> None:
        """End everything; with `grace` (seconds) the control plane may finish what it is writing."""
        if self._plan.options.node:
            self.end_node()
        recorded = self._records.all()
        if grace > 0:
            # The store last: the others still write to it while they end.
            end([process for name, process in recorded.items() if name != "etcd"], grace=grace)
        end(recorded.values(), grace=grace)
        end(marked(self._plan.state), grace=0)
        for name in recorded:
            self._records.forget(name)

    def _start(self, component: Component) -> None:
        found = self._records.find(component.name)
        if found is not None:
            end([found[0]], grace=STOP_GRACE)
        if isinstance(component.ready, Path):
            component.ready.unlink(missing_ok=True)
        self._records.start(
            component.name,
            [*self._entering(component), *component.argv],
            fingerprint=_fingerprint(component),
            log=self._plan.log(component.name),
            env={
                "PATH": SYSTEM_PATH,
                "HOME": os.environ.get("HOME", "/"),
                MARK: str(self._plan.state),
                **component.env,
            },
        )

    def _entering(self, component: Component) -> list[str]:
        if not component.in_node:
            return []
        found = self._records.find(HOLDER)
        if found is None:
            raise ClusterError(
                f"{component.name} cannot start: the node's mount namespace is gone; run `up` again"
            )
        return ["nsenter", f"--mount=/proc/{found[0].pid}/ns/mnt", "--"]

    def _wait(self, component: Component, context: ssl.SSLContext | None) -> None:
        try:
            wait_until(
                lambda: is_ready(component.ready, context),
                what=component.name,
                alive=lambda: self._records.find(component.name) is not None,
            )
        except ClusterError as error:
            log = self._plan.log(component.name)
            output = last_lines(log.read_text(errors="replace")) if log.exists() else ""
            raise ClusterError(f"{error}; the end of {log}:\n{output}") from error


def _fingerprint(component: Component) -> str:
    contents = (path.read_bytes() if path.exists() else b"" for path in component.inputs)
    return fingerprint(*component.argv, *sorted(component.env.items()), *contents)
