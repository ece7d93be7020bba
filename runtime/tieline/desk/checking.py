"""``tieline check``: what a deploy would refuse, and what would fail in the pod."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tieline.desk.described import describe
from tieline.desk.folders import Folder
from tieline.desk.loaded import Loaded, load_apart
from tieline_rules.deploys import check_files
from tieline_rules.findings import Finding, has_errors, told
from tieline_rules.image import MODULES
from tieline_rules.modules import missing_modules


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings, with paths as the command was given the folder."""

    findings: tuple[Finding, ...]
    loaded: Loaded | None = None

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
) -> Report:
    """Checks the project's files by the platform's rules, and the desk's own files; then loads the code.

    ``templates`` are the environment's beside those of the connections file (without both, templates are not
    checked); ``modules`` are what the project's own image holds beside Tieline's.
    """
    described = describe(folder.connections, folder.schema)
    known = None
    if templates or described.templates is not None:
        known = {*templates, *(described.templates or ())}
    files = folder.files()
    own = [*check_files(files, labels or {}, known), *missing_modules(files, MODULES | set(modules))]
    loaded: Loaded | None = None
    if load and not has_errors(own):
        found = load_apart(folder.code)
        if isinstance(found, Finding):
            own.append(found)
        else:
            loaded = found
    return Report(findings=(*(_placed(folder, item) for item in own), *described.findings), loaded=loaded)


def shown(finding: Finding) -> str:
    """A finding for people, as compilers write it."""
    return told(f"{finding.severity}: {finding.message}", filename=finding.filename, line=finding.line)


def _placed(folder: Folder, finding: Finding) -> Finding:
    path = folder.code / finding.filename if finding.filename else folder.code
    return Finding(message=finding.message, filename=str(path), line=finding.line, severity=finding.severity)
