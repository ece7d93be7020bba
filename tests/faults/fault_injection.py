"""The faults: each begins, lasts, and ends; what it does is chosen by the history's random numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.ha_platform import APIS, ENGINES, FAKETIME, OPERATORS, Stage
from tests.faults.worker import Log

QUOTA = "exhausted"


@dataclass(frozen=True)
class Episode:
    """When a fault was there, and whom it concerned: a replica, a part of the cluster, or ``all``."""

    kind: str
    target: str
    began: float
    ended: float


@dataclass
class FaultInjector:
    """Makes one fault after the other, now and then two at once."""

    stage: Stage
    log: Log
    rng: random.Random
    longest_pause: float = 30.0
    episodes: list[Episode] = field(default_factory=list)
    extra: list[Callable[[random.Random, threading.Event], None]] = field(default_factory=list)
    """What else may befall the platform."""

    def run(self, until: threading.Event, pause: float) -> None:
        """Troubles until it is told to stop; whatever it began has ended then."""
        kinds = self._kinds()
        waiting: list[Callable[[], None]] = []
        while not until.is_set():
            if not waiting:
                # Each once before any comes twice.
                waiting = self.rng.sample(kinds, len(kinds))
            some = [waiting.pop()]
            if waiting and self.rng.random() < 0.25:
                some.append(waiting.pop())
            self._stopping = until
            threads = [threading.Thread(target=self._surely, args=(one,)) for one in some]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            until.wait(self.rng.uniform(0.2, 1.8) * pause)

    def _surely(self, fault: Callable[[], None]) -> None:
        try:
            fault()
        except Exception as error:
            self.log.note(f"** a fault could not be made: {error!r}", shown=True)
            raise

    def _kinds(self) -> list[Callable[[], None]]:
        kinds: list[Callable[[], None]] = [
            lambda: self._kill_replica(OPERATORS),
            lambda: self._kill_replica(OPERATORS),
            lambda: self._pause_replica(OPERATORS),
            lambda: self._kill_replica(APIS),
            lambda: self._pause_replica(APIS),
            lambda: self._kill_component("kube-apiserver"),
            lambda: self._kill_component("etcd"),
            lambda: self._pause_component("kube-apiserver"),
            lambda: self._pause_component("etcd"),
            self._kill_engine,
            self._kill_engine,
            self._pause_engine,
            self._kill_pods,
            self._pause_pods,
            self._delete_pods,
            self._cut_watches,
            self._forget_versions,
            self._swallow_packets,
            self._fill_disk,
            self._exhaust_quota,
        ]
        if FAKETIME.exists():
            kinds += [lambda: self._skew(OPERATORS), lambda: self._skew(APIS)]
        kinds += [lambda act=act: act(self.rng, self._stopping) for act in self.extra]  # type: ignore[misc]
        return kinds

    # --- replicas of the platform -----------------------------------------------------------------------

    def _kill_replica(self, names: tuple[str, ...]) -> None:
        replica = self.stage.replicas[self.rng.choice(names)]
        away = self.rng.uniform(0, 6)
        with self._episode("kill", replica.name, f"for {away:.0f} s"):
            replica.wanted = False
            try:
                replica.process.signal(signal.SIGKILL)
                time.sleep(away)
            finally:
                replica.wanted = True
                self.stage.begin(replica)

    def _pause_replica(self, names: tuple[str, ...]) -> None:
        replica = self.stage.replicas[self.rng.choice(names)]
        length = self.rng.uniform(5, self.longest_pause)
        with self._episode("pause", replica.name, f"for {length:.0f} s"):
            replica.process.signal(signal.SIGSTOP)
            try:
                time.sleep(length)
            finally:
                replica.process.signal(signal.SIGCONT)

    def _skew(self, names: tuple[str, ...]) -> None:
        replica = self.stage.replicas[self.rng.choice(names)]
        seconds = self.rng.choice((-1, 1)) * int(self.rng.uniform(20, 240))
        replica.skew = 0 if replica.skew else seconds
        with self._episode("skew", replica.name, f"its clock is {replica.skew:+d} s ahead from now on"):
            replica.process.signal(signal.SIGKILL)
            self.stage.begin(replica)

    # --- the event engine -------------------------------------------------------------------------------

    def _kill_engine(self) -> None:
        """One server, or now and then two, without which nothing is accepted."""
        names = self.rng.sample(ENGINES, self.rng.choice((1, 1, 2)))
        away = self.rng.uniform(0, 10)
        with self._episode("kill", "engine", f"{', '.join(names)} for {away:.0f} s"):
            for name in names:
                self.stage.engines[name].kill()
            try:
                time.sleep(away)
            finally:
                for name in names:
                    self.stage.begin_engine(self.stage.engines[name])

    def _pause_engine(self) -> None:
        engine = self.stage.engines[self.rng.choice(ENGINES)]
        length = self.rng.uniform(3, self.longest_pause)
        with self._episode("pause", "engine", f"{engine.name} for {length:.0f} s"):
            engine.signal(signal.SIGSTOP)
            try:
                time.sleep(length)
            finally:
                engine.signal(signal.SIGCONT)

    # --- Kubernetes -------------------------------------------------------------------------------------

    def _kill_component(self, name: str) -> None:
        with self._episode("kill", name):
            try:
                self.stage.cluster.signal(name, signal.SIGKILL)
                time.sleep(self.rng.uniform(0, 3))
            finally:
                self.stage.cluster.mend()

    def _pause_component(self, name: str) -> None:
        length = self.rng.uniform(3, self.longest_pause / 2)
        with self._episode("pause", name, f"for {length:.0f} s"):
            self.stage.cluster.signal(name, signal.SIGSTOP)
            try:
                time.sleep(length)
            finally:
                self.stage.cluster.signal(name, signal.SIGCONT)

    def _cut_watches(self) -> None:
        names = self.rng.sample([*OPERATORS, *APIS], self.rng.randint(1, 4))
        length = self.rng.uniform(0.5, 10)
        with self._episode("cut", ",".join(names), f"for {length:.0f} s"), self._cut(names):
            time.sleep(length)

    def _forget_versions(self) -> None:
        """All watches end, objects change, and nobody remembers the versions from which they would go on."""
        with self._episode("forget", "all"), self._cut(list(self.stage.replicas)):
            time.sleep(self.rng.uniform(2, 6))
            try:
                self.stage.cluster.signal("kube-apiserver", signal.SIGKILL)
                self.stage.cluster.compact()
            finally:
                self.stage.cluster.mend()

    def _swallow_packets(self) -> None:
        name = self.rng.choice([*OPERATORS, *APIS])
        length = self.rng.uniform(5, 20)
        with self._episode("swallow", name, f"for {length:.0f} s"):
            self.stage.replicas[name].relay.hold()
            try:
                time.sleep(length)
            finally:
                self.stage.replicas[name].relay.release()

    # --- pods, disk, quota ------------------------------------------------------------------------------

    def _kill_pods(self) -> None:
        pods = self._pods()
        chosen = self.rng.sample(sorted(pods), min(2, len(pods)))
        with self._episode("kill", "pods", ", ".join(chosen)):
            for name in chosen:
                for pid in _processes_of(pods[name]):
                    os.kill(pid, signal.SIGKILL)

    def _pause_pods(self) -> None:
        """For longer than an event is leased, if the kubelet lets them live."""
        pods = self._pods()
        chosen = self.rng.sample(sorted(pods), min(2, len(pods)))
        length = self.rng.uniform(10, 1.5 * self.longest_pause)
        with self._episode("pause", "pods", f"{', '.join(chosen)} for {length:.0f} s"):
            processes = [pid for name in chosen for pid in _processes_of(pods[name])]
            try:
                _send(processes, signal.SIGSTOP)
                time.sleep(length)
            finally:
                _send(processes, signal.SIGCONT)

    def _delete_pods(self) -> None:
        pods = self._pods()
        chosen = self.rng.sample(sorted(pods), min(2, len(pods)))
        with self._episode("delete", "pods", ", ".join(chosen)):
            if chosen:
                gone = ("delete", "pod", "--force", "--grace-period=0", "--wait=false")
                namespace = self.stage.organisation.namespace
                self.stage.kubectl(*gone, *chosen, namespace=namespace, check=False)

    def _fill_disk(self) -> None:
        name = self.rng.choice(APIS)
        length = self.rng.uniform(10, 25)
        disk = self.stage.traces_disk(name)
        if disk is None:
            return
        with self._episode("full disk", name, f"for {length:.0f} s"):
            ballast = disk / "ballast"
            try:
                with suppress(OSError), ballast.open("wb", buffering=0) as file:
                    while file.write(b"\0" * 4096):
                        pass
                time.sleep(length)
            finally:
                ballast.unlink(missing_ok=True)

    def _exhaust_quota(self) -> None:
        namespace = self.stage.organisation.namespace
        hard = self.rng.choice(("pods=0", "count/configmaps=1", "count/services=0", "count/secrets=1"))
        length = self.rng.uniform(5, 20)
        with self._episode("quota", hard, f"for {length:.0f} s"):
            self.stage.kubectl("create", "quota", QUOTA, f"--hard={hard}", namespace=namespace, check=False)
            try:
                time.sleep(length)
            finally:
                self.lift_quota()

    def lift_quota(self) -> None:
        """Until the quota is gone, however often Kubernetes has to be asked."""
        namespace = self.stage.organisation.namespace
        gone = ("delete", "quota", QUOTA, "--ignore-not-found", "--request-timeout=10s")
        for _ in range(20):
            if self.stage.kubectl(*gone, namespace=namespace, check=False).returncode == 0:
                return
            time.sleep(1)
        raise AssertionError("The quota could not be lifted")

    def _pods(self) -> dict[str, str]:
        """The uid of each project pod, by name."""
        asked = ("get", "pods", "-l", "tieline.dev/project", "-o", "json", "--request-timeout=10s")
        found = self.stage.kubectl(*asked, namespace=self.stage.organisation.namespace, check=False)
        if found.returncode:
            return {}
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in json.loads(found.stdout)["items"]}

    @contextmanager
    def _cut(self, names: Sequence[str]) -> Iterator[None]:
        relays = [self.stage.replicas[name].relay for name in names]
        try:
            for relay in relays:
                relay.cut()
            yield
        finally:
            for relay in relays:
                relay.mend()

    @contextmanager
    def _episode(self, kind: str, target: str, more: str = "") -> Iterator[None]:
        began = time.monotonic()
        self.log.counts[f"fault: {kind} {target if kind in ('kill', 'pause') else ''}".rstrip()] += 1
        self.log.note(f"** {kind} {target} {more}".rstrip(), shown=True)
        try:
            yield
        finally:
            self.episodes.append(Episode(kind, target, began, time.monotonic()))


def _send(processes: Sequence[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _processes_of(uid: str) -> list[int]:
    """The process numbers of a pod's containers, but for the one that holds its network."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            inside = uid in (entry / "cgroup").read_text()
            program = (entry / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if inside and not program.endswith(b"pause"):
            found.append(int(entry.name))
    return found
