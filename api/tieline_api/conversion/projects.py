"""Projects, environments and versions between custom resource and REST."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tieline_api.conversion.times import created_at, updated_at
from tieline_api.schemas import projects as rest
from tieline_api.schemas.versions import Version
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    EnvironmentSpecDict,
    PartialEnvironmentSpecDict,
    PartialEnvironmentStatusDict,
    ProjectObject,
    ProjectVersionObject,
)
from tieline_core.resources.projects import (
    DEFAULT_ENVIRONMENT,
    EnvironmentState,
    merged_fields,
)
from tieline_core.resources.scaling import Scaling

Pairs = Iterable[tuple[str, bytes]]
Versions = Callable[[str], ProjectVersionObject | None]
"""Finds a ProjectVersion of a project's namespace by its name."""
Scale = Callable[[str], int]
"""The number of pods that an environment of a project was scaled to."""

EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}


def environment_items(project: ProjectObject) -> Sequence[EnvironmentSpecDict]:
    """A project's environments as its spec has them, with the default one for a project that names none."""
    return project["spec"].get("environments") or [{"name": DEFAULT_ENVIRONMENT}]


def environment_item(project: ProjectObject, name: str) -> PartialEnvironmentSpecDict:
    """An environment as the project's spec has it; empty for one that it does not have."""
    for item in environment_items(project):
        if item["name"] == name:
            return item
    return {}


def environment_status(project: ProjectObject, name: str) -> PartialEnvironmentStatusDict:
    """What the operator saw of an environment; empty before its first visit."""
    for item in (project.get("status") or {}).get("environments") or ():
        if item["name"] == name:
            return item
    return {}


def new_project_spec(body: rest.ProjectCreate) -> dict[str, Any]:
    """The spec of a new project: one draft environment, and a schema to add variables to."""
    return {
        "name": body.name,
        "environments": [{"name": DEFAULT_ENVIRONMENT}],
        "dynamicVariablesSchema": dict(EMPTY_SCHEMA),
    }


def project_to_rest(
    project: ProjectObject,
    *,
    versions: Versions,
    scale: Scale,
    files: Pairs,
    deployed: Mapping[str, tuple[Pairs, Mapping[str, str]]],
    files_managed_by: rest.FilesManager | None = None,
) -> rest.Project:
    """The REST form of a Project; ``deployed`` are files and labels by the environment they run in."""
    spec = project["spec"]
    settings = spec.get("settings") or {}
    return rest.Project(
        id=object_id(project),
        name=spec["name"],
        environments=environments_to_rest(project, versions, scale, deployed),
        current_files=rest.CurrentFiles(files=files_to_rest(files), labels=spec.get("labels") or {}),
        files_managed_by=files_managed_by,
        created_at=created_at(project),
        updated_at=updated_at(project),
        settings=rest.Settings(
            accept_code_changes_automatically=bool(settings.get("acceptCodeChangesAutomatically")),
            keep_inputs=bool(settings.get("keepInputs")),
        ),
        dynamic_variables_schema=spec.get("dynamicVariablesSchema"),
        metadata={},
    )


def project_item(project: ProjectObject, *, versions: Versions, scale: Scale) -> rest.ProjectItem:
    """A Project as lists have it."""
    return rest.ProjectItem(
        id=object_id(project),
        name=project["spec"]["name"],
        created_at=created_at(project),
        updated_at=updated_at(project),
        environments=environments_to_rest(project, versions, scale, {}),
    )


def environments_to_rest(
    project: ProjectObject,
    versions: Versions,
    scale: Scale,
    deployed: Mapping[str, tuple[Pairs, Mapping[str, str]]],
) -> list[rest.Environment]:
    """A project's environments with what the operator saw of them."""
    identifier = object_id(project)
    result = []
    for item in environment_items(project):
        name = item["name"]
        status = environment_status(project, name)
        files, labels = deployed.get(name, (None, None))
        version = chosen_version(project, item, status, versions)
        result.append(
            rest.Environment(
                id=environment_id(identifier, name),
                name=name,
                status=status.get("status") or EnvironmentState.DRAFT,
                sleeping=True if status.get("sleeping") else None,
                created_at=status.get("createdAt") or created_at(project),
                updated_at=status.get("updatedAt") or created_at(project),
                public_url=status.get("publicUrl") or "",
                last_deployed_at=_deployed_at(version, status)
                or status.get("createdAt")
                or created_at(project),
                config=_config(project, item, scale),
                deployed_version=_deployed(version) if version else None,
                serving_version=_named(versions, status.get("version")),
                rollback_version=_rollback_version(version, status, versions),
                rollout=rollout(project, item, versions),
                message=_with_names(status.get("message") or "", status, versions) or None,
                files=files_to_rest(files) if files is not None else None,
                labels=dict(labels) if labels is not None else None,
            )
        )
    return result


def _deployed(version: ProjectVersionObject) -> rest.DeployedVersion:
    return rest.DeployedVersion(
        id=object_id(version),
        name=version_name(version),
        state=_version_state(version),
        created_at=created_at(version),
        created_by=version["spec"].get("createdBy") or None,
    )


def served_version(
    item: PartialEnvironmentSpecDict, status: PartialEnvironmentStatusDict, versions: Versions
) -> ProjectVersionObject | None:
    """The version that serves in an environment; until one does, the one that shall."""
    return _first(versions, status.get("version"), status.get("desiredVersion"), item.get("version"))


def chosen_version(
    project: ProjectObject,
    item: PartialEnvironmentSpecDict,
    status: PartialEnvironmentStatusDict,
    versions: Versions,
) -> ProjectVersionObject | None:
    """The version that was deployed last, which serves once its rollout ends."""
    desired = status.get("desiredVersion")
    # An environment that follows the current files leaves the version that its spec names.
    names = (desired, item.get("version")) if is_seen(project) else (item.get("version"), desired)
    return _first(versions, *names, status.get("version"))


def serves(
    item: PartialEnvironmentSpecDict, status: PartialEnvironmentStatusDict, version: ProjectVersionObject
) -> bool:
    """Whether pods of a version answer requests in an environment, and it is what was deployed there last."""
    name = version["metadata"]["name"]
    return status.get("version") == name == status.get("desiredVersion") and not item.get("suspended")


def is_seen(project: ProjectObject) -> bool:
    """Whether the operator's status is of the spec as it is."""
    seen: int = (project.get("status") or {}).get("observedGeneration", 0)
    return bool(seen >= project["metadata"].get("generation", 0))


def rollout(
    project: ProjectObject, item: PartialEnvironmentSpecDict, versions: Versions = lambda _: None
) -> rest.Rollout | None:
    """What became of the last deploy to an environment; None where nothing is to be rolled out."""
    if not item.get("version") or item.get("suspended"):
        return None
    if not is_seen(project):
        return rest.Rollout(state="progressing")
    status = environment_status(project, item["name"])
    state = status.get("rollout")
    if state is None:
        # The operator has refused the project as a whole, or has not come to the environment yet.
        ready = _condition(project, "Ready")
        if ready.get("status") == "False":
            return rest.Rollout(state="failed", reason=ready["reason"], message=ready["message"] or None)
        return rest.Rollout(state="progressing")
    reason = status.get("deployFailure")
    return rest.Rollout(state=state, reason=reason, message=_first_line(status, versions) if reason else None)


def _first_line(status: PartialEnvironmentStatusDict, versions: Versions) -> str | None:
    """What is wrong, without the name of the environment and the lines of a traceback."""
    line: str = (status.get("message") or "").partition("\n")[0]
    return _with_names(line.removeprefix(f"{status['name']}: "), status, versions) or None


def _with_names(message: str, status: PartialEnvironmentStatusDict, versions: Versions) -> str:
    """A message of the operator with the names of versions as people gave them, instead of those of their objects."""
    for name in {status.get("version"), status.get("desiredVersion")} - {None}:
        if (found := versions(str(name))) is not None:
            message = message.replace(f"version {name}", f"version {version_name(found)}")
    return message


def _condition(project: ProjectObject, name: str) -> Mapping[str, Any]:
    conditions: Iterable[Mapping[str, Any]] = (project.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == name), {})


def rollback_version(project: ProjectObject, name: str, versions: Versions) -> rest.DeployedVersion | None:
    """The version that a rollback of an environment leads to; None where there is none."""
    status = environment_status(project, name)
    chosen = chosen_version(project, environment_item(project, name), status, versions)
    return _rollback_version(chosen, status, versions)


def _rollback_version(
    chosen: ProjectVersionObject | None, status: PartialEnvironmentStatusDict, versions: Versions
) -> rest.DeployedVersion | None:
    """The last version that was healthy before the one that is deployed, of those that are kept."""
    healthy = list(status.get("healthyVersions") or ())
    names = [one["name"] for one in healthy]
    present = chosen["metadata"]["name"] if chosen else None
    earlier = healthy[names.index(present) + 1 :] if present in names else healthy
    for one in earlier:
        found = versions(one["name"])
        if found is not None and found["spec"]["digest"] == one["digest"]:
            return _deployed(found)
    return None


def _named(versions: Versions, name: str | None) -> rest.DeployedVersion | None:
    found = _first(versions, name)
    return _deployed(found) if found else None


def _first(versions: Versions, *names: str | None) -> ProjectVersionObject | None:
    return next((found for name in names if name and (found := versions(name)) is not None), None)


def _deployed_at(version: ProjectVersionObject | None, status: PartialEnvironmentStatusDict) -> str | None:
    """When a version was chosen; its creation where the operator has not reported it (yet)."""
    if version is None:
        return None
    seen = status.get("desiredVersion") == version["metadata"]["name"]
    return (status.get("deployedAt") if seen else None) or created_at(version)


def _config(project: ProjectObject, item: PartialEnvironmentSpecDict, scale: Scale) -> rest.EnvironmentConfig:
    runtime = merged_fields(project["spec"].get("runtime") or {}, item.get("runtime") or {})
    replicas = runtime.get("replicas")
    return rest.EnvironmentConfig(
        deployment_spec=rest.DeploymentSpec(
            replicas=scale(item["name"]) if replicas is None else replicas,
            resources=runtime.get("resources") or {},
        ),
        image=runtime.get("image"),
        env=_variables(runtime, item) or None,
        scaling=_scaling(runtime.get("scaling")),
    )


def _scaling(found: ObjectView | None) -> rest.EffectiveScaling | None:
    if not found:
        return None
    scaling = Scaling.model_validate(found)
    return rest.EffectiveScaling(min=scaling.effective_min, idle_after=scaling.effective_idle_after)


def _variables(runtime: ObjectView, item: PartialEnvironmentSpecDict) -> list[rest.EffectiveEnvVariable]:
    own = {one["name"] for one in (item.get("runtime") or {}).get("env") or ()}
    return [
        rest.EffectiveEnvVariable.model_validate(one | ({} if one["name"] in own else {"inherited": True}))
        for one in runtime.get("env") or ()
    ]


def files_to_rest(files: Pairs) -> list[rest.File]:
    """Files as text; bytes that are no UTF-8 become replacement characters."""
    return [rest.File(filename=path, content=content.decode("utf-8", "replace")) for path, content in files]


def version_name(version: ProjectVersionObject) -> str:
    """The name that a version was given, or else its object's."""
    name: str = version["spec"].get("versionName") or version["metadata"]["name"]
    return name


def _version_state(version: ProjectVersionObject) -> str:
    return (version.get("status") or {}).get("state") or "draft"


def version_to_rest(version: ProjectVersionObject) -> Version:
    """The REST form of a ProjectVersion."""
    spec = version["spec"]
    return Version(
        id=object_id(version),
        name=version_name(version),
        state=_version_state(version),
        created_at=created_at(version),
        labels=spec.get("labels") or {},
        description=spec.get("versionDescription") or None,
        created_by=spec.get("createdBy") or None,
    )
