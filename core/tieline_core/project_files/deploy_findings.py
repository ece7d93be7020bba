"""What is known about a project's files before they run, as the findings that a status and an answer hold.

The rules themselves are tieline_protocol: ``tieline check`` uses the same.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tieline_core.resources.project_versions import FileFinding
from tieline_core.severity import Severity
from tieline_protocol import deploys, findings, python_source
from tieline_protocol.deploys import MAX_FINDINGS, Files
from tieline_protocol.files import MAIN

__all__ = [
    "MAIN",
    "MAX_FINDINGS",
    "check_files",
    "check_metadata",
    "has_errors",
    "missing_templates",
    "summary",
]


def check_files(
    files: Files, labels: Mapping[str, str], template_names: Collection[str] | None
) -> list[FileFinding]:
    """Findings about files and labels; see tieline_protocol.deploys.check_files."""
    return [_finding(item) for item in deploys.check_files(files, labels, template_names)]


def check_metadata(files: Files, labels: Mapping[str, str]) -> list[FileFinding]:
    """Findings about names, sizes and labels; see tieline_protocol.deploys.check_metadata."""
    return [_finding(item) for item in deploys.check_metadata(deploys.pairs_of(files), labels)]


def missing_templates(
    named: Mapping[str, tuple[str, int]], template_names: Collection[str]
) -> list[FileFinding]:
    """An error for each template that code names and the environment does not have."""
    return [_finding(item) for item in python_source.missing_templates(named, template_names)]


def has_errors(found: Iterable[FileFinding]) -> bool:
    """Whether the findings refuse a deploy."""
    return any(finding.severity == Severity.ERROR for finding in found)


def summary(found: Sequence[FileFinding], *, most: int = 3) -> str:
    """The first errors as one text for a message."""
    errors = [item for item in found if item.severity == Severity.ERROR]
    return findings.first(
        [findings.format_finding(item.message, filename=item.filename, line=item.line) for item in errors],
        most=most,
    )


def _finding(item: findings.Finding) -> FileFinding:
    return FileFinding(
        filename=item.filename, line=item.line, severity=Severity(item.severity), message=item.message[:2048]
    )
