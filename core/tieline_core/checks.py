"""What can be told about a project's files before they run, as the findings that a status and an answer hold.

The rules themselves are tieline_rules: ``tieline check`` uses the same.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tieline_core.resources.project_versions import Finding
from tieline_core.severity import Severity
from tieline_rules import deploys, findings, python
from tieline_rules.deploys import MAX_FINDINGS, Files
from tieline_rules.files import MAIN

__all__ = [
    "MAIN",
    "MAX_FINDINGS",
    "check_files",
    "check_outside",
    "has_errors",
    "missing_templates",
    "named_templates",
    "summary",
]


def check_files(
    files: Files, labels: Mapping[str, str], template_names: Collection[str] | None
) -> list[Finding]:
    """Findings about files and labels; see tieline_rules.deploys.check_files."""
    return [_finding(item) for item in deploys.check_files(files, labels, template_names)]


def check_outside(files: Files, labels: Mapping[str, str]) -> list[Finding]:
    """Findings about names, sizes and labels; see tieline_rules.deploys.check_outside."""
    return [_finding(item) for item in deploys.check_outside(deploys.pairs_of(files), labels)]


def named_templates(files: Files) -> dict[str, tuple[str, int]]:
    """The connection templates that the code names; see tieline_rules.python.named_templates."""
    return python.named_templates(deploys.pairs_of(files))


def missing_templates(named: Mapping[str, tuple[str, int]], template_names: Collection[str]) -> list[Finding]:
    """An error for each template that code names and the environment does not have."""
    return [_finding(item) for item in python.missing_templates(named, template_names)]


def has_errors(found: Iterable[Finding]) -> bool:
    """Whether the findings refuse a deploy."""
    return any(finding.severity == Severity.ERROR for finding in found)


def summary(found: Sequence[Finding], *, most: int = 3) -> str:
    """The first errors as one text for a message."""
    errors = [item for item in found if item.severity == Severity.ERROR]
    return findings.first(
        [findings.told(item.message, filename=item.filename, line=item.line) for item in errors], most=most
    )


def _finding(item: findings.Finding) -> Finding:
    return Finding(
        filename=item.filename, line=item.line, severity=Severity(item.severity), message=item.message[:2048]
    )
