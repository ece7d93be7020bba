"""Files, versions, deploying, suspending: what changes what runs."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as convert
from tieline_api.engine.operation import MIB, Call, Operation, Reply
from tieline_api.errors import FieldError
from tieline_api.models import projects as rest
from tieline_api.models.base import PageQuery
from tieline_api.operations import examples
from tieline_api.operations.project_views import (
    environment_named_or_identified,
    need_environment,
    need_project,
    project_reply,
    set_environment,
)
from tieline_api.operations.projects import PROJECT
from tieline_api.platform import Platform
from tieline_api.store.field_managers import other_managers
from tieline_api.store.orders import position
from tieline_api.store.secrets import owner_reference
from tieline_api.store.writer import put_or_leave_out, refuse_removal
from tieline_core.checks import MAIN, check_files
from tieline_core.files import MAX_FILE_BYTES, MAX_TOTAL_BYTES, files_digest
from tieline_core.ids import new_id, object_id
from tieline_core.resources.fields import Severity
from tieline_core.resources.project_versions import Finding

Obj = dict[str, Any]
Pairs = list[tuple[str, bytes]]

VERSIONS = f"{PROJECT}/versions"
# A file of 8 MiB may need three times that as JSON; the files themselves are counted after reading.
_FILES_BODY = 24 * MIB


async def get_files(call: Call[None, None]) -> Reply:
    """The current files."""
    obj = need_project(call)
    files = await call.platform.files.current(obj)
    return Reply(body=_files(files, obj["spec"].get("labels") or {}))


async def put_files(call: Call[None, rest.FilesBody]) -> Reply:
    """Replaces the current files; deploys nothing."""
    platform = call.platform
    obj = need_project(call)
    files = _given(call.body.files)
    _refuse_names(files, call.body.labels)
    references = await platform.files.store(obj, dict(files))
    labels = call.body.labels

    def change(live: Obj, mine: Obj) -> None:
        _set_files(live, mine, references=references, labels=labels)

    name = obj["metadata"]["name"]
    changed = await platform.writer.change(
        platform.world.projects, call.namespace, name, change, if_match=call.if_match
    )
    return Reply(body=_files(files, changed["spec"].get("labels") or {}))


async def deploy(call: Call[rest.DeployQuery, rest.DeployBody]) -> Reply:
    """S9: makes a version of the files and points the environment at it."""
    platform, body = call.platform, call.body
    obj = need_project(call)
    environment = need_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    current = obj["spec"].get("labels") or {}
    labels = current if body.labels is None else body.labels
    if body.files is None:
        files = await platform.files.current(obj)
    else:
        files = _given(body.files)
    await _refuse_unrunnable(platform, obj, environment, files, labels)
    references = await platform.files.store(obj, dict(files))
    spec: Obj = {
        "projectRef": {"name": obj["metadata"]["name"]},
        "digest": files_digest(dict(files)),
        "labels": labels,
        "configMaps": references,
    }
    if body.version_name:
        spec["versionName"] = body.version_name
    if body.version_description:
        spec["versionDescription"] = body.version_description
    version = await platform.writer.create(
        platform.world.versions, call.namespace, new_id(), spec, owner=owner_reference(obj)
    )

    def change(live: Obj, mine: Obj) -> None:
        if body.files is not None:
            _set_files(live, mine, references=references, labels=labels)
        elif body.labels is not None:
            _set_labels(live, mine, labels)
        set_environment(live, mine, environment, version=version["metadata"]["name"], suspended=False)

    changed = await platform.writer.change(
        platform.world.projects, call.namespace, obj["metadata"]["name"], change, if_match=call.if_match
    )
    return await project_reply(platform, changed)


async def suspend(call: Call[rest.SuspendQuery, None]) -> Reply:
    """S10: tells an environment to stop."""
    platform = call.platform
    obj = need_project(call)
    environment = environment_named_or_identified(obj, call.query.environment)

    def change(live: Obj, mine: Obj) -> None:
        set_environment(live, mine, environment, suspended=True)

    name = obj["metadata"]["name"]
    return await project_reply(
        platform, await platform.writer.change(platform.world.projects, call.namespace, name, change)
    )


async def list_versions(call: Call[PageQuery, None]) -> Reply:
    """The versions that are kept, newest first."""
    world, query = call.platform.world, call.query
    obj = need_project(call)
    found = world.referring(world.versions, "project", call.namespace, obj["metadata"]["name"])
    page = cursors.cut(
        found,
        kind=f"versions/{object_id(obj)}",
        position=position,
        first=query.first,
        after=query.after,
        before=query.before,
        newest_first=True,
    )
    items = [convert.version_to_rest(version) for version in page.items]
    return Reply(body=rest.VersionPage(total_count=page.total, items=items, next=page.next, prev=page.prev))


async def get_version_files(call: Call[None, None]) -> Reply:
    """The files of a version."""
    version = _need_version(call, need_project(call))
    files = await call.platform.files.of_version(version)
    return Reply(body=_files(files, version["spec"].get("labels") or {}))


async def deploy_version(call: Call[rest.DeployQuery, None]) -> Reply:
    """Rolls back or promotes: points an environment at a version that is there."""
    platform = call.platform
    obj = need_project(call)
    version = _need_version(call, obj)
    environment = need_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    files = await platform.files.of_version(version)
    labels = version["spec"].get("labels") or {}
    await _refuse_unrunnable(platform, obj, environment, files, labels)

    def change(live: Obj, mine: Obj) -> None:
        set_environment(live, mine, environment, version=version["metadata"]["name"], suspended=False)

    name = obj["metadata"]["name"]
    changed = await platform.writer.change(
        platform.world.projects, call.namespace, name, change, if_match=call.if_match
    )
    return await project_reply(platform, changed)


def _need_version(call: Call[Any, Any], project: Mapping[str, Any]) -> Obj:
    world, identifier = call.platform.world, call.path["version_id"]
    version = world.need(world.versions, call.namespace, identifier)
    if version["spec"]["projectRef"]["name"] != project["metadata"]["name"]:
        raise errors.not_found("version", identifier)
    return version


def _template_names(platform: Platform, project: Mapping[str, Any], environment: str) -> set[str]:
    metadata = project["metadata"]
    world = platform.world
    found = world.referring(
        world.templates, "environment", metadata["namespace"], metadata["name"], environment
    )
    return {template["spec"]["name"] for template in found}


def _given(files: Iterable[rest.File]) -> Pairs:
    """Files of a request; 413 when one is, or all are, too large."""
    pairs = sorted((file.filename, file.content.encode()) for file in files)
    for path, content in pairs:
        if len(content) > MAX_FILE_BYTES:
            raise errors.too_large(f'The file "{path[:100]}"', limit=MAX_FILE_BYTES)
    if sum(len(content) for _, content in pairs) > MAX_TOTAL_BYTES:
        raise errors.too_large("All files together", limit=MAX_TOTAL_BYTES)
    return pairs


async def _refuse_unrunnable(
    platform: Platform, project: Mapping[str, Any], environment: str, files: Pairs, labels: Mapping[str, str]
) -> None:
    """422 with what the checks before a deploy find; they parse all code, which takes a while."""
    templates = _template_names(platform, project, environment)
    _refuse(await asyncio.to_thread(check_files, files, labels, templates))


def _refuse_names(files: Pairs, labels: Mapping[str, str]) -> None:
    """422 for names and labels that cannot be; what is in the files may be work in progress."""
    names = [(path, b"") for path, _ in files]
    if all(path != MAIN for path, _ in names):
        names.append((MAIN, b""))
    _refuse(check_files(names, labels, None))


def _refuse(findings: Iterable[Finding]) -> None:
    """422 with the findings that refuse, if there are any."""
    refusing = [item for item in findings if item.severity == Severity.ERROR]
    if refusing:
        raise errors.invalid_fields(FieldError(_place(item), item.message) for item in refusing)


def _place(finding: Finding) -> str:
    file = f"[{finding.filename}]" if finding.filename else ""
    line = f":{finding.line}" if finding.line else ""
    return f"files{file}{line}"


def _set_files(live: Obj, mine: Obj, *, references: list[Obj], labels: Mapping[str, str]) -> None:
    """Makes ``references`` the only source; 409 when others own a source that would stay beside it."""
    source = live["spec"].get("source") or {}
    wanted = {item["name"] for item in references}
    for field, key in (("files", "filename"), ("configMaps", "name")):
        for item in source.get(field) or ():
            if field == "configMaps" and item[key] in wanted:
                continue
            managers = other_managers(live, ("spec", "source", field, {key: item[key]}))
            if managers:
                raise errors.conflict(
                    f'The file source "{item[key]}" belongs to "{managers[0]}": change the files there, '
                    "or make that manager give it up",
                    managers=managers,
                )
    put_or_leave_out(mine["spec"], "source", {"configMaps": references} if references else {})
    _set_labels(live, mine, labels)


def _set_labels(live: Obj, mine: Obj, labels: Mapping[str, str]) -> None:
    """Makes ``labels`` the only ones; 409 when others own one that would stay."""
    for key in (live["spec"].get("labels") or {}).keys() - labels.keys():
        refuse_removal(live, ("labels", key), what=f'The label "{key}"')
    put_or_leave_out(mine["spec"], "labels", dict(labels))


def _files(files: Iterable[tuple[str, bytes]], labels: Mapping[str, str]) -> rest.CurrentFiles:
    return rest.CurrentFiles(files=convert.files_to_rest(files), labels=dict(labels))


_DEPLOY = (Permission("patch", "projects"), Permission("create", "projectversions"))

OPERATIONS = (
    Operation(
        id="getFiles",
        method="GET",
        path=f"{PROJECT}/files",
        summary="Get files",
        tag="Projects",
        handler=get_files,
        permissions=permission("get", "projects"),
        response=rest.CurrentFiles,
        errors=(409,),
        response_example=examples.FILES_BODY,
    ),
    Operation(
        id="updateFiles",
        method="PUT",
        path=f"{PROJECT}/files",
        summary="Update files, without deploying them",
        tag="Projects",
        handler=put_files,
        permissions=permission("patch", "projects"),
        body=rest.FilesBody,
        body_limit=_FILES_BODY,
        response=rest.CurrentFiles,
        errors=(409,),
        conditional=True,
        example=examples.FILES_BODY,
        response_example=examples.FILES_BODY,
    ),
    Operation(
        id="deployProject",
        method="PUT",
        path=f"{PROJECT}/deploy",
        summary="Deploy project",
        tag="Projects",
        handler=deploy,
        permissions=_DEPLOY,
        query=rest.DeployQuery,
        body=rest.DeployBody,
        body_optional=True,
        body_limit=_FILES_BODY,
        response=rest.Project,
        errors=(409,),
        conditional=True,
        example={**examples.FILES_BODY, "versionName": "First"},
        response_example=examples.PROJECT,
    ),
    Operation(
        id="suspendProject",
        method="POST",
        path=f"{PROJECT}/suspend",
        summary="Suspend project",
        tag="Projects",
        handler=suspend,
        permissions=permission("patch", "projects"),
        query=rest.SuspendQuery,
        response=rest.Project,
        errors=(409,),
        response_example=examples.PROJECT,
    ),
    Operation(
        id="listVersions",
        method="GET",
        path=VERSIONS,
        summary="List versions, newest first",
        tag="Versions",
        handler=list_versions,
        permissions=permission("list", "projectversions"),
        query=PageQuery,
        response=rest.VersionPage,
        response_example=examples.page(examples.VERSION),
    ),
    Operation(
        id="getVersionFiles",
        method="GET",
        path=f"{VERSIONS}/{{version_id}}/files",
        summary="Get the files of a version",
        tag="Versions",
        handler=get_version_files,
        permissions=permission("get", "projectversions"),
        response=rest.CurrentFiles,
        errors=(409,),
        response_example=examples.FILES_BODY,
    ),
    Operation(
        id="deployVersion",
        method="PUT",
        path=f"{VERSIONS}/{{version_id}}/deploy",
        summary="Deploy a version that is there: roll back or promote",
        tag="Versions",
        handler=deploy_version,
        permissions=permission("patch", "projects"),
        query=rest.DeployQuery,
        response=rest.Project,
        errors=(409,),
        conditional=True,
        response_example=examples.PROJECT,
    ),
)
