"""Versions, what differs between them, and what checks of files found, in REST."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from tieline_api.conversion.projects import version_name
from tieline_api.schemas import versions as rest
from tieline_core.identity.ids import format_time, object_id
from tieline_core.project_files.deploy_findings import has_errors, summary
from tieline_core.project_files.differences import FileDiff
from tieline_core.resources.objects import ProjectVersionObject
from tieline_core.resources.project_versions import FileFinding
from tieline_protocol.findings import format_finding


def validation(
    project_id: str, environment: str, found: Sequence[FileFinding], *, milliseconds: int
) -> rest.ValidationAnswer:
    """What the checks found, as one answer."""
    lines = [format_finding(one.message, filename=one.filename, line=one.line) for one in found]
    return rest.ValidationAnswer(
        project_id=project_id,
        environment=environment,
        validation=rest.Validation(
            success=not has_errors(found),
            error=summary(found),
            output="".join(f"{line}\n" for line in lines),
            duration=milliseconds,
            timestamp=format_time(datetime.now(UTC)),
        ),
        findings=[
            rest.Finding(filename=one.filename, line=one.line, severity=one.severity, message=one.message)
            for one in found
        ],
    )


def version_diff(
    before: ProjectVersionObject | None, after: ProjectVersionObject, files: Iterable[FileDiff]
) -> rest.VersionDiff:
    """What differs between two versions."""
    earlier: Mapping[str, str] = (before["spec"].get("labels") or {}) if before else {}
    later: Mapping[str, str] = after["spec"].get("labels") or {}
    return rest.VersionDiff(
        since=_reference(before) if before else None,
        to=_reference(after),
        files=[
            rest.FileDiff(
                filename=one.filename,
                change=one.change,
                binary=one.binary,
                truncated=one.truncated,
                diff=one.diff,
            )
            for one in files
        ],
        labels=[
            rest.LabelDiff(key=key, before=earlier.get(key), after=later.get(key))
            for key in sorted(earlier.keys() | later.keys())
            if earlier.get(key) != later.get(key)
        ],
    )


def _reference(version: ProjectVersionObject) -> rest.VersionRef:
    return rest.VersionRef(id=object_id(version), name=version_name(version))
