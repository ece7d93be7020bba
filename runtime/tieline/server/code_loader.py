"""Loads a project's code and explains, in few lines, why it does not load."""

import importlib.util
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from tieline.errors import CodeError
from tieline.events.event import EventTask
from tieline.integration import MAX_SCHEDULES, Integration, Webhook
from tieline.scheduling.schedules import Schedule
from tieline_packages.activation import activate
from tieline_packages.archive import PackagesError
from tieline_protocol.findings import first
from tieline_protocol.package_lock import PackageLock, parse_lock
from tieline_protocol.runtime_image import REQUIREMENTS
from tieline_protocol.waits import MAX_RULES, WaitRule
from tieline_protocol.webhook_names import other_integration_problem

MAIN = "main.py"


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What a project's code wants to have run, by name."""

    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    events: Mapping[str, EventTask] = field(default_factory=dict)
    waits: Mapping[str, Sequence[WaitRule]] = field(default_factory=dict)
    """The declared rules of waits, by the events' names."""

    @property
    def has_events(self) -> bool:
        """Whether the code needs the event engine."""
        return bool(self.events or self.waits) or any(
            webhook.delivery == "queued" for webhook in self.webhooks.values()
        )


def load(code_dir: Path, packages_dir: Path | None = None) -> Tasks:
    """Import ``main.py`` in ``code_dir`` and return the tasks of the integrations at its top level.

    The directory is put on ``sys.path``, so that main.py's neighbours can be imported. ``packages_dir`` holds the
    packages of its lock. Raises CodeError; its ``__cause__`` is what the code itself raised.
    """
    main = code_dir / MAIN
    if not main.is_file():
        raise CodeError(f"The project has no {MAIN}; that is the file that is run")
    if packages_dir is None:
        _require_no_packages(code_dir / REQUIREMENTS)
    else:
        _activate(packages_dir)
    if str(code_dir) not in sys.path:
        sys.path.insert(0, str(code_dir))
    importlib.invalidate_caches()
    return _tasks(_import(main))


def _activate(packages_dir: Path) -> None:
    try:
        activate(packages_dir)
    except PackagesError as error:
        raise CodeError(f"The packages cannot be used: {error}") from error


def _require_no_packages(lock: Path) -> None:
    """Raises CodeError for a file that says that the code needs packages, or that is no lock."""
    if not lock.is_file():
        return
    found = parse_lock(lock.read_bytes())
    if not isinstance(found, PackageLock):
        raise CodeError(first([str(one) for one in found], most=3))
    if found.packages:
        raise CodeError(
            f"The packages of {REQUIREMENTS} are not installed: set TIELINE_PACKAGES_DIR to where they are"
        )


def _import(main: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("main", main)
    if spec is None or spec.loader is None:
        raise CodeError(f"{main} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["main"] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CodeError(_headline(error, main.parent)) from error
    return module


def _tasks(module: ModuleType) -> Tasks:
    found = {id(value): value for value in vars(module).values() if isinstance(value, Integration)}
    if not found:
        raise CodeError(
            f"{MAIN} holds no Integration; write `integration = Integration()` at its top level and put "
            "`@integration.webhook(...)` on the functions to run"
        )
    webhooks: dict[str, Webhook] = {}
    schedules: dict[str, Schedule] = {}
    events: dict[str, EventTask] = {}
    waits: dict[str, Sequence[WaitRule]] = {}
    for integration in found.values():
        for name in integration.webhooks:
            if problem := other_integration_problem(name, webhooks, MAIN):
                raise CodeError(problem)
        webhooks |= integration.webhooks
        _add("schedule", schedules, integration.schedules)
        _add("event", events, integration.events)
        _add_waits(waits, integration.waits)
    if len(schedules) > MAX_SCHEDULES:
        raise CodeError(f"{MAIN} has {len(schedules)} schedules; a project has at most {MAX_SCHEDULES}")
    return Tasks(webhooks=webhooks, schedules=schedules, events=events, waits=waits)


def _add_waits(waits: dict[str, Sequence[WaitRule]], more: Mapping[str, Sequence[WaitRule]]) -> None:
    """Several integrations may be cancelled by the same event; waits of code for one stand in one of them."""
    for name, rules in more.items():
        known = waits.get(name, ())
        if any(not one.cancels for one in known) and any(not one.cancels for one in rules):
            _add("wait for", waits, {name: rules})
        waits[name] = (*known, *(one for one in rules if one not in known))
        if len(waits[name]) > MAX_RULES:
            raise CodeError(f"{MAIN}: at most {MAX_RULES} sets of fields of {name!r} can be waited for")


def _add(kind: str, tasks: dict[str, T], more: Mapping[str, T]) -> None:
    for name, task in more.items():
        if name in tasks:
            raise CodeError(f"Two integrations of {MAIN} have a {kind} {name!r}; give one another name")
        tasks[name] = task


def _headline(error: BaseException, code_dir: Path) -> str:
    """``shop/orders.py:12: ModuleNotFoundError: No module named 'x'``, and what to do about it."""
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    return f"{_location(error, code_dir)}: {text}{_advice(error)}"


def _location(error: BaseException, code_dir: Path) -> str:
    """File and line in the project's code where it happened."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative(Path(error.filename), code_dir)}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(code_dir):
            return f"{_relative(Path(frame.filename), code_dir)}:{frame.lineno}"
    return MAIN


def _relative(path: Path, code_dir: Path) -> Path:
    return path.relative_to(code_dir) if path.is_relative_to(code_dir) else path


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f" (add {error.name.replace('.', '/')}.py to the project's files, put its package into the lock with "
            "`tieline lock`, or run an image that has it: spec.runtime.image)"
        )
    if isinstance(error, SystemExit):
        return " (code must not exit while it is loaded)"
    return ""
