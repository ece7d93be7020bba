"""A client with a history of its own: chooses what to do next, does it, and tells the model what it knows."""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from tests.faults.clients import WriteResult
from tests.faults.model import Model, Outcome, Project, Register
from tests.faults.shop import Shop

CODE = """
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("state", methods=["GET"])
async def state(ctx: Context, request: Request) -> dict:
    told = {"text": TEXT, "region": ctx.variables.get("region", "none")}
    for template in ("desk", "bank"):
        response = await ctx.fetch(template, "/who")
        told[template] = {"status": response.status, **await response.json()}
    ctx.log.info("Told", text=TEXT)
    return told
"""
V = TypeVar("V")

SCHEMA = {"type": "object", "properties": {"region": {"type": "string"}}}


def code(text: str) -> str:
    """The file of a version that answers ``text``."""
    return CODE.replace("TEXT", repr(text))


@dataclass
class Log:
    """What happened, for people and for the report of a failure."""

    show: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=400))
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, *, shown: bool = False) -> None:
        line = f"{time.monotonic() - self.began:7.1f} {what}"
        self.tail.append(line)
        if shown:
            self.show(line)


class Worker(ABC):
    """One client: its projects and users are its own."""

    door: ClassVar[str]
    _numbers: ClassVar[itertools.count[int]] = itertools.count(1)
    """Of texts, keys and log-ins: none comes twice in a history."""

    def __init__(self, name: str, model: Model, shop: Shop, log: Log, rng: random.Random) -> None:
        self.name = name
        self.model = model
        self.shop = shop
        self.log = log
        self.rng = rng
        self.most_projects = 2
        self._made = itertools.count(1)
        self.users: list[str] = []

    def run(self, until: threading.Event, pause: float) -> None:
        """Works until it is told to stop."""
        while not until.is_set():
            self.step()
            until.wait(self.rng.uniform(0.3, 1.7) * pause)

    def step(self) -> None:
        """One operation."""
        mine = self.projects()
        if not mine or (len(mine) < self.most_projects and self.rng.random() < 0.3):
            self._note("create project", self._create())
            return
        project = self.rng.choice(mine)
        choices: list[tuple[int, str, Callable[[Project], Outcome]]] = [
            (7, "deploy", self._deploy),
            (3, "roll back", self.roll_back),
            (2, "suspend", self._suspend),
            (3, "set region", self._set_region),
            (3, "set key", self._set_key),
            (1, "log in again", self.log_in),
            (1, "delete project", self._delete),
            (2, "create user", self._create_user),
            (1, "delete user", self._delete_user),
            (4, "activate", self._activate),
            (1, "deactivate", self._deactivate),
            (1, "trespass", self.trespass),
        ]
        weights = [weight for weight, _, _ in choices]
        _, what, act = self.rng.choices(choices, weights)[0]
        self._note(f"{what} {project.name}", act(project))

    def projects(self) -> list[Project]:
        """Those that may be there, and whose parts are known."""
        return [one for one in self.model.projects.values() if self._is_mine(one) and one.exists.value]

    def log_in(self, project: Project) -> Outcome:
        """A new log-in for the project's second connection."""
        family = next(self._numbers)
        return self._write(project.family, family, lambda: self.put_tokens(project, self.shop.log_in(family)))

    # --- what a door does -------------------------------------------------------------------------------

    @abstractmethod
    def create(self, project: Project) -> Outcome:
        """The project and its connections; ``complete`` once all is acknowledged."""

    @abstractmethod
    def deploy(self, project: Project, text: str) -> WriteResult:
        """A new version that serves at once."""

    @abstractmethod
    def roll_back(self, project: Project) -> Outcome:
        """To one of the versions that are there."""

    @abstractmethod
    def suspend(self, project: Project) -> WriteResult: ...

    @abstractmethod
    def put_region(self, project: Project, region: str) -> WriteResult: ...

    @abstractmethod
    def put_key(self, project: Project, key: str) -> WriteResult: ...

    @abstractmethod
    def put_tokens(self, project: Project, tokens: dict[str, str]) -> WriteResult: ...

    @abstractmethod
    def delete(self, project: Project) -> WriteResult: ...

    @abstractmethod
    def create_user(self, user: str) -> WriteResult: ...

    @abstractmethod
    def delete_user(self, user: str) -> WriteResult: ...

    @abstractmethod
    def activate(self, project: Project, user: str, region: str) -> WriteResult: ...

    @abstractmethod
    def deactivate(self, project: Project, user: str) -> WriteResult: ...

    @abstractmethod
    def trespass(self, project: Project) -> Outcome:
        """A write to a field that is somebody else's, which must be refused."""

    # --- what the model is told -------------------------------------------------------------------------

    def _is_mine(self, project: Project) -> bool:
        return project.name.startswith(f"{self.name}-")

    def _note(self, what: str, outcome: Outcome) -> None:
        self.log.counts[outcome] += 1
        self.log.note(f"{self.name}: {what}: {outcome}")

    def _write(self, register: Register[V], value: V, act: Callable[[], WriteResult]) -> Outcome:
        began = time.monotonic()
        said = act()
        register.write(value, began, said.outcome)
        if said.outcome is not Outcome.DONE:
            self.log.note(f"    {said.status} {said.text[-200:]}")
        return said.outcome

    def _text(self, project: Project) -> str:
        return f"{project.name} says {next(self._numbers)}"

    def _create(self) -> Outcome:
        project = Project(f"{self.name}-{next(self._made)}", self.door)
        self.model.projects[project.name] = project
        return self.create(project)

    def _deploy(self, project: Project) -> Outcome:
        text = self._text(project)
        return self.deployed(project, text, lambda: self.deploy(project, text))

    def deployed(self, project: Project, text: str, act: Callable[[], WriteResult]) -> Outcome:
        """A write of the version, which also ends a suspension."""
        began = time.monotonic()
        outcome = self._write(project.text, text, act)
        project.suspended.write(False, began, outcome)
        return outcome

    def _suspend(self, project: Project) -> Outcome:
        if not project.text.value:
            return Outcome.REFUSED
        return self._write(project.suspended, True, lambda: self.suspend(project))

    def _set_region(self, project: Project) -> Outcome:
        region = f"region-{next(self._numbers)}"
        return self._write(project.region, region, lambda: self.put_region(project, region))

    def _set_key(self, project: Project) -> Outcome:
        number = next(self._numbers)
        return self._write(project.key, number, lambda: self.put_key(project, self.shop.key(number)))

    def _delete(self, project: Project) -> Outcome:
        outcome = self._write(project.exists, False, lambda: self.delete(project))
        if outcome is Outcome.UNKNOWN:
            # Whether its parts are there is not known any more.
            project.complete = False
        return outcome

    def _create_user(self, _project: Project) -> Outcome:
        user = f"{self.name}-user-{next(self._numbers)}"
        self.model.users[user] = Register(False)
        outcome = self._write(self.model.users[user], True, lambda: self.create_user(user))
        if outcome is Outcome.DONE:
            self.users.append(user)
        return outcome

    def _delete_user(self, project: Project) -> Outcome:
        if not self.users:
            return Outcome.REFUSED
        user = self.rng.choice(self.users)
        began = time.monotonic()
        outcome = self._write(self.model.users[user], False, lambda: self.delete_user(user))
        # Whoever tried to delete a user does not work with them any more.
        self.users.remove(user)
        for (_, activated), activation in self.model.activations.items():
            if activated == user:
                activation.write("", began, Outcome.UNKNOWN if outcome is Outcome.REFUSED else outcome)
        return outcome

    def _activate(self, project: Project) -> Outcome:
        if not self.users:
            return self._create_user(project)
        user, region = self.rng.choice(self.users), f"region-{next(self._numbers)}"
        register = self.model.activations.setdefault((project.name, user), Register(""))
        return self._write(register, region, lambda: self.activate(project, user, region))

    def _deactivate(self, project: Project) -> Outcome:
        mine = [user for name, user in self.model.activations if name == project.name and user in self.users]
        if not mine:
            return Outcome.REFUSED
        user = self.rng.choice(mine)
        register = self.model.activations[project.name, user]
        return self._write(register, "", lambda: self.deactivate(project, user))
