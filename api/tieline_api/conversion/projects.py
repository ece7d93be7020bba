"""Projects, environments and versions between custom resource and REST."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tieline_api.conversion.times import created_at, updated_at
from tieline_api.schemas import projects as rest
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.projects import DEFAULT_ENVIRONMENT, EnvironmentState, merged_fields

Pairs = Iterable[tuple[str, bytes]]
Versions = Callable[[str], ObjectView | None]
"""Finds a ProjectVersion of a project's namespace by its name."""

EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}


def environment_items(project: ObjectView) -> list[Mapping[str, Any]]:
    """A project's environments as its spec has them, with the default one for a project that names none."""
    return list(project["spec"].get("environments") or ()) or [{"name": DEFAULT_ENVIRONMENT}]


def environment_status(project: ObjectView, name: str) -> Mapping[str, Any]:
    """What the operator saw of an environment; empty before its first visit."""
    for item in (project.get("status") or {}).get("environments") or ():
        if item["name"] == name:
            found: Mapping[str, Any] = item
            return found
    return {}


def new_project_spec(body: rest.ProjectCreate) -> dict[str, Any]:
    """The spec of a new project: one draft environment, and a schema to add variables to."""
    return {
        "name": body.name,
        "environments": [{"name": DEFAULT_ENVIRONMENT}],
        "dynamicVariablesSchema": dict(EMPTY_SCHEMA),
    }


def project_to_rest(
    project: ObjectView,
    *,
    versions: Versions,
    files: Pairs,
    deployed: Mapping[str, tuple[Pairs, Mapping[str, str]]],
) -> rest.Project:
    """The REST form of a Project; ``deployed`` are files and labels by the environment they run in."""
    spec = project["spec"]
    settings = spec.get("settings") or {}
    return rest.Project(
        id=object_id(project),
        name=spec["name"],
        environments=environments_to_rest(project, versions, deployed),
        current_files=rest.CurrentFiles(files=files_to_rest(files), labels=spec.get("labels") or {}),
        created_at=created_at(project),
        updated_at=updated_at(project),
        settings=rest.Settings(
            accept_code_changes_automatically=bool(settings.get("acceptCodeChangesAutomatically")),
            keep_inputs=bool(settings.get("keepInputs")),
        ),
        dynamic_variables_schema=spec.get("dynamicVariablesSchema"),
    )


def project_item(project: ObjectView, *, versions: Versions) -> rest.ProjectItem:
    """A Project as lists have it."""
    return rest.ProjectItem(
        id=object_id(project),
        name=project["spec"]["name"],
        created_at=created_at(project),
        updated_at=updated_at(project),
        environments=environments_to_rest(project, versions, {}),
    )


def environments_to_rest(
    project: ObjectView, versions: Versions, deployed: Mapping[str, tuple[Pairs, Mapping[str, str]]]
) -> list[rest.Environment]:
    """A project's environments with what the operator saw of them."""
    identifier = object_id(project)
    result = []
    for item in environment_items(project):
        name = item["name"]
        status = environment_status(project, name)
        files, labels = deployed.get(name, (None, None))
        version = chosen_version(item, status, versions)
        result.append(
            rest.Environment(
                id=environment_id(identifier, name),
                name=name,
                status=status.get("status") or EnvironmentState.DRAFT,
                created_at=status.get("createdAt") or created_at(project),
                updated_at=status.get("updatedAt") or created_at(project),
                public_url=status.get("publicUrl") or "",
                last_deployed_at=_deployed_at(version, status)
                or status.get("createdAt")
                or created_at(project),
                config=_config(project, item),
                deployed_version=_deployed(version) if version else None,
                rollout=rollout(project, item, version),
                message=status.get("message") or None,
                files=files_to_rest(files) if files is not None else None,
                labels=dict(labels) if labels is not None else None,
            )
        )
    return result


def _deployed(version: ObjectView) -> rest.DeployedVersion:
    return rest.DeployedVersion(
        id=object_id(version),
        name=version_name(version),
        created_by=version["spec"].get("createdBy") or None,
    )


def served_version(item: ObjectView, status: ObjectView, versions: Versions) -> ObjectView | None:
    """The version that serves in an environment; until one does, the one that shall."""
    return _first(versions, status.get("version"), status.get("desiredVersion"), item.get("version"))


def chosen_version(item: ObjectView, status: ObjectView, versions: Versions) -> ObjectView | None:
    """The version that was deployed last, which serves once its rollout ends."""
    return _first(versions, item.get("version"), status.get("desiredVersion"), status.get("version"))


def rollout(project: ObjectView, item: ObjectView, chosen: ObjectView | None) -> rest.Rollout | None:
    """What became of the version that was chosen for an environment; None where none is to be rolled out."""
    if chosen is None or item.get("suspended"):
        return None
    status = environment_status(project, item["name"])
    seen = (project.get("status") or {}).get("observedGeneration", 0) >= project["metadata"].get(
        "generation", 0
    )
    name = chosen["metadata"]["name"]
    if not seen or status.get("desiredVersion") != name:
        return rest.Rollout(state="progressing")
    if reason := status.get("deployFailure"):
        return rest.Rollout(state="failed", reason=reason)
    # Of an environment without replicas nothing serves.
    done = status.get("version") == name or status.get("status") == EnvironmentState.SUSPENDED
    return rest.Rollout(state="complete" if done else "progressing")


def _first(versions: Versions, *names: str | None) -> ObjectView | None:
    return next((found for name in names if name and (found := versions(name)) is not None), None)


def _deployed_at(version: ObjectView | None, status: ObjectView) -> str | None:
    """When a version was chosen; its creation where the operator has not told that (yet)."""
    if version is None:
        return None
    seen = status.get("desiredVersion") == version["metadata"]["name"]
    return (status.get("deployedAt") if seen else None) or created_at(version)


def _config(project: ObjectView, item: ObjectView) -> rest.EnvironmentConfig:
    runtime = merged_fields(project["spec"].get("runtime") or {}, item.get("runtime") or {})
    replicas = runtime.get("replicas")
    return rest.EnvironmentConfig(
        deployment_spec=rest.DeploymentSpec(
            replicas=1 if replicas is None else replicas, resources=runtime.get("resources") or {}
        ),
        image=runtime.get("image"),
        env=_variables(runtime, item) or None,
    )


def _variables(runtime: ObjectView, item: ObjectView) -> list[rest.EffectiveEnvVariable]:
    own = {one["name"] for one in (item.get("runtime") or {}).get("env") or ()}
    return [
        rest.EffectiveEnvVariable.model_validate(one | ({} if one["name"] in own else {"inherited": True}))
        for one in runtime.get("env") or ()
    ]


def files_to_rest(files: Pairs) -> list[rest.File]:
    """Files as text; bytes that are no UTF-8 become replacement characters."""
    return [rest.File(filename=path, content=content.decode("utf-8", "replace")) for path, content in files]


def version_name(version: ObjectView) -> str:
    """The name that a version was given, or else its object's."""
    name: str = version["spec"].get("versionName") or version["metadata"]["name"]
    return name


def version_to_rest(version: ObjectView) -> rest.Version:
    """The REST form of a ProjectVersion."""
    spec = version["spec"]
    return rest.Version(
        id=object_id(version),
        name=version_name(version),
        state=(version.get("status") or {}).get("state") or "draft",
        created_at=created_at(version),
        labels=spec.get("labels") or {},
        description=spec.get("versionDescription") or None,
        created_by=spec.get("createdBy") or None,
    )
