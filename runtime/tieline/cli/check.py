"""``tieline check``: what a deploy would refuse, and what would fail in the pod."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tieline.cli.inspect_code import LoadedCode, load_in_subprocess
from tieline.configuration.project_folder import Folder
from tieline_packages.archive import PackagesError
from tieline_packages.local import installed_folder, modules_in
from tieline_protocol.deploys import check_files
from tieline_protocol.findings import Finding, format_finding, has_errors
from tieline_protocol.missing_modules import MissingModule, missing_modules
from tieline_protocol.runtime_image import MODULES, REQUIREMENTS


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """All findings, with paths as the command was given the folder."""

    findings: tuple[Finding, ...]
    loaded: LoadedCode | None = None
    packages: Path | None = None
    """The packages of the lock, as pods have them."""
    schema: Mapping[str, Any] | None = None
    """The schema of variables from its own file; None without one."""

    @property
    def ok(self) -> bool:
        """Whether it could be deployed."""
        return not has_errors(self.findings)


def check(
    folder: Folder,
    *,
    labels: Mapping[str, str] | None = None,
    templates: Collection[str] = (),
    modules: Collection[str] = (),
    load: bool = True,
    here: bool = False,
) -> CheckReport:
    """Checks the project's files by the platform's rules, and those for local runs; then loads the code.

    ``templates`` are the environment's beside those of the connections file (without both, templates are not
    checked); ``modules`` are what the project's own image holds beside Tieline's. With ``here`` the code is to run on
    this machine: modules that are installed on it are only warned of.
    """
    from tieline.cli.config_check import describe  # noqa: PLC0415  (loads the SDK)

    described = describe(folder.connections, folder.schema)
    known = None
    if templates or described.templates is not None:
        known = {*templates, *(described.templates or ())}
    files = folder.files()
    # Templates of the environment come from the platform; without them the connections file alone has some.
    file = folder.connections.name if folder.connections and not templates else ""
    own = check_files(files, labels or {}, known, connections_file=file)
    lock_is_broken = has_errors([one for one in own if one.filename == REQUIREMENTS])
    packages = None if lock_is_broken else _packages(folder.code)
    if isinstance(packages, Finding):
        own.append(packages)
        packages = None
    elif not lock_is_broken:
        more = modules_in(packages) if packages else frozenset()
        missing = missing_modules(files, MODULES | more | set(modules))
        own += _here(missing) if here else missing
    loaded: LoadedCode | None = None
    if load and not has_errors(own):
        found = load_in_subprocess(folder.code, packages=packages)
        if isinstance(found, Finding):
            own.append(found)
        else:
            loaded = found
    return CheckReport(
        findings=(*(_placed(folder, item) for item in own), *described.findings),
        loaded=loaded,
        packages=packages,
        schema=described.schema if folder.schema else None,
    )


def _packages(code: Path) -> Path | Finding | None:
    """The packages of the lock, or why they cannot be installed here."""
    try:
        return installed_folder(code)
    except PackagesError as error:
        return Finding(message=f"the packages cannot be installed: {error}", filename=REQUIREMENTS)


def _here(missing: Iterable[MissingModule]) -> Iterator[Finding]:
    for finding in missing:
        if installed(finding.module):
            message = f"this works here, and fails in the pod: {finding.message}"
            yield replace(finding, message=message, severity="warning")
        else:
            yield replace(finding, message=f"{finding.message}; on this machine: pip install it first")


def installed(module: str) -> bool:
    """Whether a top-level module can be imported on this machine, whatever the current folder is."""
    path = [entry for entry in sys.path if entry and Path(entry).resolve() != Path.cwd()]
    for finder in sys.meta_path:
        try:
            if finder.find_spec(module, path if finder is PathFinder else None) is not None:
                return True
        except (ImportError, ValueError, AttributeError):
            continue
    return False


def shown(finding: Finding) -> str:
    """A finding for people, as compilers write it."""
    return format_finding(
        f"{finding.severity}: {finding.message}", filename=finding.filename, line=finding.line
    )


def _placed(folder: Folder, finding: Finding) -> Finding:
    path = folder.code / finding.filename if finding.filename else folder.code
    return Finding(message=finding.message, filename=str(path), line=finding.line, severity=finding.severity)
