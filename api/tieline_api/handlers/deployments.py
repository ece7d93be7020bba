"""Files, versions, deploying, suspending: what changes what runs."""

import time
from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.body_limits import BodyKind
from tieline_api.cache.sorted_lists import position
from tieline_api.conversion import projects as convert
from tieline_api.conversion import versions as versions_to_rest
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import projects as rest
from tieline_api.schemas import versions
from tieline_api.schemas.base import PageQuery
from tieline_api.store.etags import etag
from tieline_api.use_cases.project_files_input import (
    deploy_findings,
    files_to_rest,
    given_files,
    refuse_names,
    refuse_sizes,
    refuse_unrunnable,
    set_files,
    set_labels,
)
from tieline_api.use_cases.project_lookup import (
    change_project,
    environment_by_name_or_id,
    need_environment,
    need_project,
    need_version,
    project_reply,
    set_environment,
)
from tieline_api.use_cases.rollout_wait import wait_for_rollout
from tieline_api.use_cases.version_create import create_version
from tieline_core.identity.ids import object_id
from tieline_core.objects import Object

VERSIONS = f"{PROJECT}/versions"


async def get_files(call: Call[None, None]) -> Reply:
    """Returns the current files, which may differ from what environments serve."""
    obj = need_project(call)
    files = await call.platform.files.current(obj)
    return Reply(body=files_to_rest(files, obj["spec"].get("labels") or {}))


async def put_files(call: Call[None, rest.FilesBody]) -> Reply:
    """Replaces the current files, without deploying them."""
    platform = call.platform
    obj = need_project(call)
    files = given_files(call.body.files)
    refuse_names(files, call.body.labels)
    references = await platform.files.store(obj, dict(files))
    labels = call.body.labels

    def change(live: Object, mine: Object) -> None:
        set_files(live, mine, references=references, labels=labels)

    changed = await change_project(call, obj, change)
    return Reply(body=files_to_rest(files, changed["spec"].get("labels") or {}))


async def patch_files(call: Call[None, rest.FilesPatch]) -> Reply:
    """Changes the files that are named and leaves the others as they are: a file without content (null) is removed, and
    so is a label without a value. Deploys nothing."""
    platform, body = call.platform, call.body
    obj = need_project(call)
    given = {file.filename: file.content for file in body.files}
    if len(given) != len(body.files):
        raise errors.invalid("files", "name a file twice: send each file once")
    refuse_names([(path, b"") for path, content in given.items() if content is not None], {})
    states: list[tuple[Object, Object]] = []

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


async def validate(call: Call[rest.EnvironmentChoice, versions.ValidateBody]) -> Reply:
    """Checks files as a deploy to the environment would, and stores nothing. Without files in the body, the current
    files are checked."""
    platform, body = call.platform, call.body
    obj = need_project(call)
    environment = need_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    labels = (obj["spec"].get("labels") or {}) if body.labels is None else body.labels
    files = await platform.files.current(obj) if body.files is None else given_files(body.files)
    began = time.monotonic()
    found = await deploy_findings(platform, obj, environment, files, labels)
    milliseconds = round((time.monotonic() - began) * 1000)
    return Reply(
        body=versions_to_rest.validation(object_id(obj), environment, found, milliseconds=milliseconds)
    )


async def deploy(call: Call[rest.DeployQuery, rest.DeployBody]) -> Reply:
    """Creates a version of the files and deploys it to an environment.

    Without files in the body, the current files are deployed. The answer is 422 with the findings when the files
    cannot run. The environment serves the version before until the new one is ready. The environment's
    ``deployedVersion`` in the answer is the version that was made; with ``wait`` the answer comes when the rollout has
    ended, or when that time is over.
    """
    platform, body = call.platform, call.body
    obj = need_project(call)
    environment = need_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    current = obj["spec"].get("labels") or {}
    labels = current if body.labels is None else body.labels
    if body.files is None:
        files = await platform.files.current(obj)
    else:
        files = given_files(body.files)
    await refuse_unrunnable(platform, obj, environment, files, labels)
    version = await create_version(
        platform,
        obj,
        files,
        labels,
        author=call.caller.username,
        name=body.version_name,
        description=body.version_description,
    )

    def change(live: Object, mine: Object) -> None:
        if body.files is not None:
            set_files(live, mine, references=version["spec"]["configMaps"], labels=labels)
        elif body.labels is not None:
            set_labels(live, mine, labels)
        set_environment(live, mine, environment, version=version["metadata"]["name"], suspended=False)

    return await _deployed(call, await change_project(call, obj, change), environment)


async def suspend(call: Call[rest.SuspendQuery, None]) -> Reply:
    """Stops an environment. Deploy to it to start it again."""
    obj = need_project(call)
    environment = environment_by_name_or_id(obj, call.query.environment)

    def change(live: Object, mine: Object) -> None:
        set_environment(live, mine, environment, suspended=True)

    return await project_reply(call.platform, await change_project(call, obj, change))


async def list_versions(call: Call[PageQuery, None]) -> Reply:
    """Returns a page of the versions that are kept, newest first."""
    world = call.platform.world
    obj = need_project(call)
    found = world.referring(world.versions, "project", call.namespace, obj["metadata"]["name"])
    kind = f"versions/{object_id(obj)}"
    page = cursors.cut(found, kind=kind, position=position, newest_first=True, **call.query.window)
    items = [convert.version_to_rest(version) for version in page.items]
    return Reply(body=rest.VersionPage(total_count=page.total, items=items, next=page.next, prev=page.prev))


async def get_version_files(call: Call[None, None]) -> Reply:
    """Returns the files and labels of a version."""
    version = need_version(call, need_project(call), call.path["version_id"])
    files = await call.platform.files.of_version(version)
    return Reply(body=files_to_rest(files, version["spec"].get("labels") or {}))


async def deploy_version(call: Call[rest.DeployQuery, None]) -> Reply:
    """Deploys an existing version to an environment: roll back, or promote from another environment."""
    platform = call.platform
    obj = need_project(call)
    version = need_version(call, obj, call.path["version_id"])
    environment = need_environment(obj, name=call.query.project_env, identifier=call.query.env_id)
    files = await platform.files.of_version(version)
    labels = version["spec"].get("labels") or {}
    await refuse_unrunnable(platform, obj, environment, files, labels)

    def change(live: Object, mine: Object) -> None:
        set_environment(live, mine, environment, version=version["metadata"]["name"], suspended=False)

    return await _deployed(call, await change_project(call, obj, change), environment)


async def _deployed(call: Call[rest.DeployQuery, Any], project: Object, environment: str) -> Reply:
    """The project; with ``wait`` once the rollout has ended."""
    seconds = call.query.wait
    if seconds:
        project = await wait_for_rollout(call.platform, project, environment, seconds=seconds)
    return await project_reply(call.platform, project)


_DEPLOY = (Permission("patch", "projects"), Permission("create", "projectversions"))

OPERATIONS = (
    Operation(
        id="getFiles",
        path=f"{PROJECT}/files",
        summary="Get files",
        handler=get_files,
        permissions=permission("get", "projects"),
        response=rest.CurrentFiles,
        errors=(409,),
    ),
    Operation(
        id="updateFiles",
        method="PUT",
        path=f"{PROJECT}/files",
        summary="Update files, without deploying them",
        handler=put_files,
        permissions=permission("patch", "projects"),
        size=BodyKind.FILES,
        response=rest.CurrentFiles,
        conditional=True,
    ),
    Operation(
        id="patchFiles",
        method="PATCH",
        path=f"{PROJECT}/files",
        summary="Change single files, without deploying them",
        handler=patch_files,
        permissions=permission("patch", "projects"),
        size=BodyKind.FILES,
        success=204,
        conditional=True,
    ),
    Operation(
        id="validateProject",
        method="PUT",
        path=f"{PROJECT}/validate",
        summary="Check files as a deploy would",
        handler=validate,
        permissions=permission("patch", "projects"),
        body_optional=True,
        size=BodyKind.FILES,
        response=versions.ValidationAnswer,
    ),
    Operation(
        id="deployProject",
        method="PUT",
        path=f"{PROJECT}/deploy",
        summary="Deploy project",
        handler=deploy,
        permissions=_DEPLOY,
        body_optional=True,
        size=BodyKind.FILES,
        response=rest.Project,
        conditional=True,
    ),
    Operation(
        id="suspendProject",
        method="POST",
        path=f"{PROJECT}/suspend",
        summary="Suspend project",
        handler=suspend,
        permissions=permission("patch", "projects"),
        response=rest.Project,
    ),
    Operation(
        id="listVersions",
        path=VERSIONS,
        summary="List versions, newest first",
        tag="Versions",
        handler=list_versions,
        permissions=permission("list", "projectversions"),
        response=rest.VersionPage,
    ),
    Operation(
        id="getVersionFiles",
        path=f"{VERSIONS}/{{version_id}}/files",
        summary="Get the files of a version",
        tag="Versions",
        handler=get_version_files,
        permissions=permission("get", "projectversions"),
        response=rest.CurrentFiles,
        errors=(409,),
    ),
    Operation(
        id="deployVersion",
        method="PUT",
        path=f"{VERSIONS}/{{version_id}}/deploy",
        summary="Deploy a version that is there: roll back or promote",
        tag="Versions",
        handler=deploy_version,
        permissions=permission("patch", "projects"),
        response=rest.Project,
        conditional=True,
    ),
)
