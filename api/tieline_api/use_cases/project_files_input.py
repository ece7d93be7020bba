"""Files and labels that REST brings into a project: what is checked, and what others own."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tieline_api import errors
from tieline_api.cluster.field_managers import described, other_managers
from tieline_api.cluster.files_manager import SOURCES, advice
from tieline_api.cluster.writer import refuse_removal, set_or_drop
from tieline_api.conversion import projects as convert
from tieline_api.dependencies import Dependencies
from tieline_api.errors import FieldError
from tieline_api.schemas import projects as rest
from tieline_core.evaluation.pool import EvaluationBusy
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.objects import Object, ObjectView
from tieline_core.project_files.deploy_findings import MAIN, check_files, missing_templates
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.project_versions import FileFinding
from tieline_core.severity import Severity
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.files import MAX_FILE_BYTES, MAX_TOTAL_BYTES

Pairs = list[tuple[str, bytes]]
# How long a request waits for the check of its files, which the files of others may come before.
_CHECK_SECONDS = 30.0
_RETRY_SECONDS = 5.0
_WAITING_SECONDS = 2.0
_WAITING_TASKS = 1000


def given_files(files: Iterable[rest.File]) -> Pairs:
    """Files of a request; 413 when one is, or all are, too large."""
    pairs = sorted((file.filename, file.content.encode()) for file in files)
    refuse_sizes(pairs)
    return pairs


def refuse_sizes(pairs: Pairs) -> None:
    """413 when a file is, or all are, too large."""
    for path, content in pairs:
        if len(content) > MAX_FILE_BYTES:
            raise errors.too_large(f'The file "{path[:100]}"', limit=MAX_FILE_BYTES)
    if sum(len(content) for _, content in pairs) > MAX_TOTAL_BYTES:
        raise errors.too_large("All files together", limit=MAX_TOTAL_BYTES)


@dataclass(frozen=True, kw_only=True)
class DeployCandidate:
    """Files that may be deployed to an environment of a project."""

    organisation: str
    """Its id."""
    project: ProjectObject
    environment: str
    files: Pairs
    labels: Mapping[str, str]


async def refuse_unrunnable(platform: Dependencies, candidate: DeployCandidate) -> tuple[str, ...]:
    """422 with what the checks before a deploy find; 429 when the checks cannot run now. Returns warnings."""
    findings = await deploy_findings(platform, candidate)
    _refuse(findings)
    return tuple(one.message for one in findings if one.filename is None)


async def deploy_findings(platform: Dependencies, candidate: DeployCandidate) -> list[FileFinding]:
    """What the checks before a deploy find; 429 when the checks cannot run now."""
    project, environment = candidate.project, candidate.environment
    templates = _template_names(platform, project, environment)
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            found = await platform.files_checker.check(
                project["metadata"]["namespace"], candidate.files, candidate.labels
            )
    except (EvaluationBusy, TimeoutError):
        raise errors.too_many_requests(
            "Too many files of this organisation wait to be checked: try again in a moment",
            retry_after=_RETRY_SECONDS,
        ) from None
    waiting = await _without_task(platform, candidate, found.interface.events)
    return [*found.findings, *missing_templates(found.templates, templates), *waiting]


async def _without_task(
    platform: Dependencies, candidate: DeployCandidate, tasks: Sequence[str] | None
) -> list[FileFinding]:
    """A warning for each task of waiting events that the files do not have, as far as both are known."""
    if tasks is None:
        return []
    environment = environment_id(object_id(candidate.project), candidate.environment)
    try:
        async with asyncio.timeout(_WAITING_SECONDS):
            waiting = await platform.runs.waiting_tasks(
                EventStreams(candidate.organisation, environment), _WAITING_TASKS
            )
    except (errors.ApiError, TimeoutError):
        return []  # a deploy does not need it
    return [
        FileFinding(
            severity=Severity.WARNING,
            message=f'{count} {"event waits" if count == 1 else "events wait"} for the task "{task}", which these '
            "files do not have. They become dead letters minutes after the deploy: keep the task until they have "
            "ended, or cancel them",
        )
        for task, count in waiting.items()
        if task not in tasks
    ]


def refuse_names(files: Pairs, labels: Mapping[str, str]) -> None:
    """422 for names and labels that cannot be; what is in the files may be work in progress."""
    names = [(path, b"") for path, _ in files]
    if all(path != MAIN for path, _ in names):
        names.append((MAIN, b""))
    _refuse(check_files(names, labels, None))


def set_files(
    live: ProjectObject, mine: Object, *, references: list[Object], labels: Mapping[str, str]
) -> None:
    """Makes ``references`` the only source; 409 when others own a source that would stay beside it."""
    source: ObjectView = live["spec"].get("source") or {}
    if reference := source.get("sourceRef"):
        raise errors.conflict(
            f'The files are managed by Flux ({reference["kind"]} "{reference["name"]}"): commit them there. '
            "Without files in the body, the current files are deployed. To send files by REST, remove "
            "spec.source.sourceRef from the Project"
        )
    wanted = {item["name"] for item in references}
    for field, key in SOURCES:
        for item in source.get(field) or ():
            if field == "configMaps" and item[key] in wanted:
                continue
            managers = other_managers(live, ("spec", "source", field, {key: item[key]}))
            if managers:
                raise errors.conflict(
                    f'The file source "{item[key]}" is managed by {described(live, managers[0])}: '
                    f"{advice(managers[0])}. Without files in the body, the current files are deployed",
                    managers=managers,
                )
    set_or_drop(mine["spec"], "source", {"configMaps": references} if references else {})
    set_labels(live, mine, labels)


def set_labels(live: ProjectObject, mine: Object, labels: Mapping[str, str]) -> None:
    """Makes ``labels`` the only ones; 409 when others own one that would stay."""
    for key in (live["spec"].get("labels") or {}).keys() - labels.keys():
        refuse_removal(live, ("labels", key), what=f'The label "{key}"')
    set_or_drop(mine["spec"], "labels", dict(labels))


def files_to_rest(files: Iterable[tuple[str, bytes]], labels: Mapping[str, str]) -> rest.CurrentFiles:
    return rest.CurrentFiles(files=convert.files_to_rest(files), labels=dict(labels))


def _template_names(platform: Dependencies, project: ProjectObject, environment: str) -> set[str]:
    metadata = project["metadata"]
    cluster = platform.cluster
    found = cluster.referring(
        cluster.templates, "environment", metadata["namespace"], metadata["name"], environment
    )
    return {template["spec"]["name"] for template in found}


def _refuse(findings: Iterable[FileFinding]) -> None:
    """422 with the findings that refuse, if there are any."""
    refusing = [item for item in findings if item.severity == Severity.ERROR]
    if refusing:
        raise errors.invalid_fields(FieldError(_field(item), item.message) for item in refusing)


def _field(finding: FileFinding) -> str:
    file = f"[{finding.filename}]" if finding.filename else ""
    line = f":{finding.line}" if finding.line else ""
    return f"files{file}{line}"
