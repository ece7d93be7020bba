"""Asks the runs that wait in an environment whether they find their steps in the code that is to be deployed."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote.client import Client
from tieline.cli.replay_sleepers import replay_in_subprocess
from tieline.cli.terminal import note, one_line
from tieline_packages.archive import PackagesError
from tieline_packages.local import installed_folder

_MOST = 200
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class _Found:
    total: int
    items: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SleepersReport:
    """What becomes of the runs that wait in an environment."""

    environment: str
    total: int
    answers: Sequence[Mapping[str, Any]]
    """See ``Replayed``. Of more runs than these, nothing is known."""

    def of(self, verdict: str) -> Sequence[Mapping[str, Any]]:
        """The runs with a verdict."""
        return [one for one in self.answers if one["verdict"] == verdict]

    @property
    def ok(self) -> bool:
        """Whether none of them would stop."""
        return not self.of("stops")

    def lines(self) -> Iterator[str]:
        """For people."""
        if not self.total:
            yield f"No run waits in {one_line(self.environment)}"
            return
        counts = ", ".join(
            f"{len(found)} {text}"
            for verdict, text in (
                ("continues", "would continue"),
                ("stops", "would stop"),
                ("unknown", "could not be judged to their end"),
            )
            if (found := self.of(verdict))
        )
        left = self.total - len(self.answers)
        sampled = f"; {left} were not looked at" if left > 0 else ""
        yield f"{_runs(self.total)} in {one_line(self.environment)}: {counts or 'none was judged'}{sampled}"
        for verdict in ("stops", "unknown"):
            found = self.of(verdict)
            for one in found[:_SHOWN]:
                yield f"  {_line(one)}"
            if len(found) > _SHOWN:
                yield f"  and {len(found) - _SHOWN} more"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "environment": self.environment,
            "total": self.total,
            "runs": [dict(one) for one in self.answers],
        }


def _runs(count: int) -> str:
    return "1 run waits" if count == 1 else f"{count} runs wait"


def _line(answer: Mapping[str, Any]) -> str:
    place = f"{answer['location']}: " if answer["location"] else ""
    verb = "stops" if answer["verdict"] == "stops" else "is not judged further"
    return one_line(f"{place}{answer['task']} {answer['run']} {verb}: {answer['reason']}")


def ask_sleepers(
    remote: Client, environment: Mapping[str, Any], code: Path, *, packages: Path | None
) -> SleepersReport:
    """Replays the runs that wait in an environment against a folder's code. Raises CommandError."""
    return _replayed(environment, _sleepers(remote, environment), code, packages=packages)


def require_sleepers(
    remote: Client, environment: Mapping[str, Any], code: Path, *, packages: Path | None, force: bool
) -> None:
    """Says what becomes of the runs that wait. Raises CommandError where some would stop, unless ``force``."""
    if found := _known_sleepers(remote, environment):
        _require(_replayed(environment, found, code, packages=packages), force=force)


def require_sleepers_of_files(
    remote: Client, environment: Mapping[str, Any], files: Mapping[str, str], *, force: bool
) -> None:
    """See ``require_sleepers``; for the files of a version."""
    found = _known_sleepers(remote, environment)
    if not found:
        return
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder).resolve()
        _write(code, files)
        try:
            packages = installed_folder(code)
        except PackagesError as error:
            note(f"warning: the runs that wait cannot be asked, without packages: {error}")
            return
        _require(_replayed(environment, found, code, packages=packages), force=force)


def _sleepers(remote: Client, environment: Mapping[str, Any]) -> _Found:
    found = remote.get(f"environments/{environment['id']}/sleepers", first=_MOST)
    match found:
        case {"items": list(items)} if all(isinstance(one, dict) for one in items):
            total = found.get("totalCount", len(items))
            if isinstance(total, int):
                return _Found(total=total, items=items)
    raise CommandError("The answer about the runs that wait cannot be read")


def _known_sleepers(remote: Client, environment: Mapping[str, Any]) -> _Found | None:
    """None for none. While the event engine is away they cannot be asked; what runs must still be replaceable."""
    try:
        found = _sleepers(remote, environment)
    except CommandError as error:
        if error.code is not ExitCode.UNAVAILABLE:
            raise
        note(f"warning: the runs that wait cannot be asked now: {error}")
        return None
    return found if found.total else None


def _replayed(
    environment: Mapping[str, Any], found: _Found, code: Path, *, packages: Path | None
) -> SleepersReport:
    return SleepersReport(
        environment=environment["name"],
        total=found.total,
        answers=replay_in_subprocess(code, found.items, packages=packages) if found.items else (),
    )


def _require(report: SleepersReport, *, force: bool) -> None:
    if len(report.of("continues")) < report.total:
        for line in report.lines():
            note(line)
    if not report.ok and not force:
        raise CommandError(
            f"Nothing was deployed: {len(report.of('stops'))} of the runs that wait would stop with this code. Keep "
            "the old way for them with ctx.patched, or use --force: then they become dead letters"
        )


def _write(code: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = (code / name).resolve()
        if not path.is_relative_to(code):
            raise CommandError(f"The version has a file outside of its folder: {one_line(name)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
