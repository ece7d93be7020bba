"""A fault that cannot be made leaves nothing broken: what does not come right after it is the platform's."""

from __future__ import annotations

import random
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults import fault_injection
from tests.faults.fault_injection import FaultInjector
from tests.faults.ha_platform import APIS, OPERATORS
from tests.faults.worker import Log


class Breakable:
    """A process or a relay: how it was left."""

    def __init__(self) -> None:
        self.broken: set[str] = set()

    def signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCONT:
            self.broken.discard("SIGSTOP")
        else:
            self.broken.add(number.name)

    def cut(self) -> None:
        self.broken.add("cut")

    def mend(self) -> None:
        self.broken.discard("cut")

    def hold(self) -> None:
        self.broken.add("held")

    def release(self) -> None:
        self.broken.discard("held")


class FailingStage:
    """Two operators, two APIs and a cluster whose etcd does not answer."""

    def __init__(self) -> None:
        self.replicas = {
            name: SimpleNamespace(name=name, process=Breakable(), relay=Breakable(), wanted=True, skew=0)
            for name in (*OPERATORS, *APIS)
        }
        self.components = {"kube-apiserver": Breakable(), "etcd": Breakable()}
        self.cluster = self

    def begin(self, replica: Any) -> None:
        replica.process.broken.discard("SIGKILL")

    def signal(self, component: str, number: signal.Signals) -> None:
        self.components[component].signal(number)

    def mend(self) -> None:
        for component in self.components.values():
            component.broken.discard("SIGKILL")

    def compact(self) -> None:
        raise ConnectionRefusedError("etcd was killed by another fault")

    def broken(self) -> dict[str, set[str]]:
        found = {f"{name}'s process": one.process.broken for name, one in self.replicas.items()}
        found |= {f"{name}'s relay": one.relay.broken for name, one in self.replicas.items()}
        found |= {name: one.broken for name, one in self.components.items()}
        return {name: how for name, how in found.items() if how}


FAULTS = [
    "_kill_replica", "_pause_replica", "_kill_component", "_pause_component", "_cut_watches",
    "_forget_versions", "_swallow_packets",
]  # fmt: skip
WHAT = {"replica": OPERATORS, "component": "etcd"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_broken_off_is_undone_all_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = FailingStage()
    seen: list[dict[str, set[str]]] = []

    def interrupted(seconds: float) -> None:
        seen.append(stage.broken())
        if name != "_forget_versions":
            raise InterruptedError("broken off")

    monkeypatch.setattr(fault_injection.time, "sleep", interrupted)
    log = Log(lambda line: None)
    them = FaultInjector(stage, log, random.Random(7))  # type: ignore[arg-type]
    arguments = [WHAT[part] for part in WHAT if part in name]
    with pytest.raises(OSError, match=r"broken off|killed by another"):
        getattr(them, name)(*arguments)
    assert seen[0], "something was broken"
    assert stage.broken() == {}
    assert all(replica.wanted for replica in stage.replicas.values())
    assert len(them.episodes) == 1
