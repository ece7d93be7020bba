"""Files, versions, deploying, suspending: what changes what runs."""

import time
from collections.abc import Mapping
from dataclasses import replace

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.body_limits import BodyKind
from tieline_api.cluster.etags import etag
from tieline_api.cluster.sorted_lists import position
from tieline_api.conversion import projects as convert
from tieline_api.conversion import versions as versions_to_rest
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import projects as rest
from tieline_api.schemas import versions
from tieline_api.schemas.base import PageQuery
from tieline_api.use_cases.project_files_input import (
    DeployCandidate,
    Pairs,
    deploy_findings,
    files_to_rest,
    given_files,
    refuse_names,
    refuse_sizes,
    refuse_unrunnable,
    set_files,
    set_labels,
)
from tieline_api.use_cases.rollout_wait import wait_for_rollout, wait_until_suspended
from tieline_api.use_cases.version_create import create_version
from tieline_api.views.project_lookup import (
    change_project,
    deploy_note,
    deployed_environment,
    environment_by_name_or_id,
    environment_object,
    project_reply,
    refuse_change,
    require_environment,
    require_project,
    require_version,
    set_environment,
)
from tieline_api.views.quotas import require_place
from tieline_core.identity.ids import new_id, object_id, object_name
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject

VERSIONS = f"{PROJECT}/versions"
_DEPLOY = (Permission("patch", "projects"), Permission("create", "projectversions"))

OPERATIONS = Operations("Projects")


@OPERATIONS.add(
    "GET",
    f"{PROJECT}/files",
    id="getFiles",
    summary="Get files",
    permissions=permission("get", "projects"),
    errors=(409,),
)
async def get_files(call: Call[None, None]) -> Reply[rest.CurrentFiles]:
    """Returns the current files, which may differ from what environments serve."""
    obj = require_project(call)
    files = await call.platform.files.current(obj)
    return Reply(body=files_to_rest(files, obj["spec"].get("labels") or {}))


@OPERATIONS.add(
    "PUT",
    f"{PROJECT}/files",
    id="updateFiles",
    summary="Update files, without deploying them",
    permissions=permission("patch", "projects"),
    size=BodyKind.FILES,
    conditional=True,
)
async def put_files(call: Call[None, rest.FilesBody]) -> Reply[rest.CurrentFiles]:
    """Replaces the current files, without deploying them."""
    platform = call.platform
    obj = require_project(call)
    files = given_files(call.body.files)
    refuse_names(files, call.body.labels)
    references = await platform.files.store(obj, dict(files))
    labels = call.body.labels

    def change(live: ProjectObject, mine: Object) -> None:
        set_files(live, mine, references=references, labels=labels)

    changed = await change_project(call, obj, change)
    return Reply(body=files_to_rest(files, changed["spec"].get("labels") or {}))


@OPERATIONS.add(
    "PATCH",
    f"{PROJECT}/files",
    id="patchFiles",
    summary="Change single files, without deploying them",
    permissions=permission("patch", "projects"),
    size=BodyKind.FILES,
    success=204,
    conditional=True,
)
async def patch_files(call: Call[None, rest.FilesPatch]) -> Reply[None]:
    """Changes the files that are named and leaves the others as they are: a file without content (null) is removed, and
    so is a label without a value. Deploys nothing."""
    platform, body = call.platform, call.body
    obj = require_project(call)
    given = {file.filename: file.content for file in body.files}
    if len(given) != len(body.files):
        raise errors.invalid("files", "name a file twice: send each file once")
    refuse_names([(path, b"") for path, content in given.items() if content is not None], {})
    states: list[tuple[ProjectObject, Object]] = []

    async def merge() -> None:
        live, mine = states[-1]
        files = dict(await platform.files.current(live))
        files |= {path: content.encode() for path, content in given.items() if content is not None}
        labels: dict[str, str] = dict(live["spec"].get("labels") or {})
        labels |= {key: value for key, value in body.labels.items() if value is not None}
        kept = sorted((path, content) for path, content in files.items() if given.get(path, "") is not None)
        labels = {key: value for key, value in labels.items() if body.labels.get(key, "") is not None}
        refuse_sizes(kept)
        refuse_names(kept, labels)
        references = await platform.files.store(live, dict(kept))
        set_files(live, mine, references=references, labels=labels)

    changed = await change_project(call, obj, lambda live, mine: states.append((live, mine)), prepare=merge)
    return Reply(etag=etag(changed))


@OPERATIONS.add(
    "PUT",
    f"{PROJECT}/validate",
    id="validateProject",
    summary="Check files as a deploy would",
    permissions=permission("patch", "projects"),
    body_optional=True,
    size=BodyKind.FILES,
)
async def validate(
    call: Call[rest.EnvironmentChoice, versions.ValidateBody],
) -> Reply[versions.ValidationAnswer]:
    """Checks files as a deploy to the environment would, and stores nothing. Without files in the body, the current
    files are checked."""
    platform, body = call.platform, call.body
    obj = require_project(call)
    environment = require_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    labels = (obj["spec"].get("labels") or {}) if body.labels is None else body.labels
    files = await platform.files.current(obj) if body.files is None else given_files(body.files)
    began = time.monotonic()
    found = await deploy_findings(platform, _candidate(call, obj, environment, files, labels))
    milliseconds = round((time.monotonic() - began) * 1000)
    return Reply(
        body=versions_to_rest.validation(object_id(obj), environment, found, milliseconds=milliseconds)
    )


async def _deployed_environment(call: Call[rest.DeployQuery, rest.DeployBody]) -> tuple[str, ...]:
    changes_files = call.body.files is not None or call.body.labels is not None
    return () if changes_files else await deployed_environment(call)


@OPERATIONS.add(
    "PUT",
    f"{PROJECT}/deploy",
    id="deployProject",
    summary="Deploy project",
    permissions=_DEPLOY,
    by_environment=_deployed_environment,
    body_optional=True,
    size=BodyKind.FILES,
    conditional=True,
)
async def deploy(call: Call[rest.DeployQuery, rest.DeployBody]) -> Reply[rest.Project]:
    """Creates a version of the files and deploys it to an environment.

    Without files in the body, the current files are deployed. The answer is 422 with the findings when the files
    cannot run. The environment serves the version before until the new one is ready. The environment's
    ``deployedVersion`` in the answer is the version that was made; with ``wait`` the answer comes when the rollout has
    ended, or when that time is over.
    """
    platform, body = call.platform, call.body
    obj = require_project(call)
    environment = require_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    require_place(call, obj, environment)
    current = obj["spec"].get("labels") or {}
    labels = current if body.labels is None else body.labels
    if body.files is None:
        files = await platform.files.current(obj)
    else:
        files = given_files(body.files)
    warnings = await refuse_unrunnable(platform, _candidate(call, obj, environment, files, labels))
    identifier = new_id()
    references = platform.files.references(obj, dict(files))
    name = object_name(identifier)
    note = deploy_note(name, call.caller.username, body, described=body.version_description or "")

    def change(live: ProjectObject, mine: Object) -> None:
        if body.files is not None:
            set_files(live, mine, references=references, labels=labels)
        elif body.labels is not None:
            set_labels(live, mine, labels)
        set_environment(live, mine, environment, version=name, suspended=False, deployNote=note)

    await refuse_change(call, obj, change)
    await create_version(
        platform,
        obj,
        files,
        labels,
        identifier=identifier,
        author=call.caller.username,
        name=body.version_name,
        description=body.version_description,
    )
    return await _deployed(call, await change_project(call, obj, change), environment, warnings)


async def _suspended_environment(call: Call[rest.SuspendQuery, None]) -> tuple[str, ...]:
    project = require_project(call)
    return (environment_object(project, environment_by_name_or_id(project, call.query.environment)),)


@OPERATIONS.add(
    "POST",
    f"{PROJECT}/suspend",
    id="suspendProject",
    summary="Suspend project",
    permissions=permission("patch", "projects"),
    by_environment=_suspended_environment,
)
async def suspend(call: Call[rest.SuspendQuery, None]) -> Reply[rest.Project]:
    """Stops an environment. Deploy to it to start it again. With ``wait`` the answer comes when nothing of it runs any
    more, or when that time is over."""
    obj = require_project(call)
    environment = environment_by_name_or_id(obj, call.query.environment)

    def change(live: ProjectObject, mine: Object) -> None:
        set_environment(live, mine, environment, suspended=True)

    changed = await change_project(call, obj, change)
    if seconds := call.query.wait:
        changed = await wait_until_suspended(call.platform, changed, environment, seconds=seconds)
    return await project_reply(call.platform, changed)


@OPERATIONS.add(
    "GET",
    VERSIONS,
    id="listVersions",
    summary="List versions, newest first",
    tag="Versions",
    permissions=permission("list", "projectversions"),
)
async def list_versions(call: Call[PageQuery, None]) -> Reply[versions.VersionPage]:
    """Returns a page of the versions that are kept, newest first."""
    cluster = call.platform.cluster
    obj = require_project(call)
    found = cluster.referring(cluster.versions, "project", call.namespace, obj["metadata"]["name"])
    kind = f"versions/{object_id(obj)}"
    page = cursors.cut(found, kind=kind, position=position, newest_first=True, **call.query.window)
    items = [convert.version_to_rest(version) for version in page.items]
    return Reply(
        body=versions.VersionPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


@OPERATIONS.add(
    "GET",
    f"{VERSIONS}/{{version_id}}/files",
    id="getVersionFiles",
    summary="Get the files of a version",
    tag="Versions",
    permissions=permission("get", "projectversions"),
    errors=(409,),
)
async def get_version_files(call: Call[None, None]) -> Reply[rest.CurrentFiles]:
    """Returns the files and labels of a version."""
    version = require_version(call, require_project(call), call.path["version_id"])
    files = await call.platform.files.of_version(version)
    return Reply(body=files_to_rest(files, version["spec"].get("labels") or {}))


@OPERATIONS.add(
    "PUT",
    f"{VERSIONS}/{{version_id}}/deploy",
    id="deployVersion",
    summary="Deploy a version that is there: roll back or promote",
    tag="Versions",
    permissions=permission("patch", "projects"),
    by_environment=deployed_environment,
    body_optional=True,
    conditional=True,
)
async def deploy_version(call: Call[rest.DeployQuery, rest.DeployReason]) -> Reply[rest.Project]:
    """Deploys an existing version to an environment: roll back, or promote from another environment."""
    platform = call.platform
    obj = require_project(call)
    version = require_version(call, obj, call.path["version_id"])
    environment = require_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    require_place(call, obj, environment)
    files = await platform.files.of_version(version)
    labels = version["spec"].get("labels") or {}
    warnings = await refuse_unrunnable(platform, _candidate(call, obj, environment, files, labels))
    name = version["metadata"]["name"]
    note = deploy_note(name, call.caller.username, call.body)

    def change(live: ProjectObject, mine: Object) -> None:
        set_environment(live, mine, environment, version=name, suspended=False, deployNote=note)

    return await _deployed(call, await change_project(call, obj, change), environment, warnings)


def _candidate(
    call: AnyCall, project: ProjectObject, environment: str, files: Pairs, labels: Mapping[str, str]
) -> DeployCandidate:
    return DeployCandidate(
        organisation=call.organisation.id,
        project=project,
        environment=environment,
        files=files,
        labels=labels,
    )


async def _deployed(
    call: Call[rest.DeployQuery, object], project: ProjectObject, environment: str, warnings: tuple[str, ...]
) -> Reply[rest.Project]:
    """The project; with ``wait`` once the rollout has ended."""
    seconds = call.query.wait
    if seconds:
        project = await wait_for_rollout(call.platform, project, environment, seconds=seconds)
    return replace(await project_reply(call.platform, project), warnings=warnings)
