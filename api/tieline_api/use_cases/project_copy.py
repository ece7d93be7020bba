"""A copy of a project: a draft with the same files, settings, environments and connection templates."""

import copy
from collections.abc import Iterator

from tieline_api.conversion import projects as convert
from tieline_api.http.operation import AnyCall
from tieline_api.use_cases.template_copies import copy_templates, new_objects
from tieline_core.identity.ids import new_id
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.fields import MAX_DISPLAY_NAME
from tieline_core.resources.objects import ProjectObject

_COPIED = ("labels", "settings", "dynamicVariablesSchema", "runtime")


async def copy_project(call: AnyCall, project: ProjectObject, name: str | None) -> ProjectObject:
    """The new project. When something cannot be copied, all of it is taken back.

    ApiError 403 where the caller may not use an image pull Secret or a mounted ConfigMap that the project refers to.
    """
    platform = call.platform
    cluster = platform.cluster
    spec = _draft(project, name or f"Copy of {project['spec']['name']}"[:MAX_DISPLAY_NAME])
    await platform.references.check(call.caller, project, _pull_secrets(spec))
    await platform.references.check_config_maps(call.caller, call.namespace, _mounted_config_maps(spec))
    files = dict(await platform.files.current(project))
    async with new_objects(platform) as made:
        new = await platform.writer.create(cluster.projects, call.namespace, new_id(), spec)
        made.add(cluster.projects, new)
        if files:
            references = await platform.files.store(new, files)

            def change(_live: ProjectObject, mine: Object) -> None:
                mine["spec"]["source"] = {"configMaps": references}

            new = await platform.writer.change(
                cluster.projects, call.namespace, new["metadata"]["name"], change
            )
        for item in spec["environments"]:
            place = (call.namespace, project["metadata"]["name"], item["name"])
            templates = cluster.referring(cluster.templates, "environment", *place)
            await copy_templates(platform, templates, project=new, environment=item["name"], made=made)
    return new


def _draft(project: ProjectObject, name: str) -> Object:
    """The spec of the copy, without files and without anything that runs."""
    source: ObjectView = project["spec"]
    spec: Object = {field: copy.deepcopy(source[field]) for field in _COPIED if source.get(field)}
    spec["name"] = name
    spec["environments"] = [
        {"name": item["name"], **({"runtime": copy.deepcopy(item["runtime"])} if item.get("runtime") else {})}
        for item in convert.environment_items(project)
    ]
    return spec


def _pull_secrets(spec: ObjectView) -> Iterator[str]:
    for part in (spec, *spec["environments"]):
        yield from (one["name"] for one in (part.get("runtime") or {}).get("imagePullSecrets") or ())


def _mounted_config_maps(spec: ObjectView) -> Iterator[str]:
    for runtime in (part.get("runtime") or {} for part in (spec, *spec["environments"])):
        if bundle := runtime.get("caBundle"):
            yield bundle["name"]
        for volume in runtime.get("volumes") or ():
            sources = (volume, *((volume.get("projected") or {}).get("sources") or ()))
            yield from (source["configMap"]["name"] for source in sources if source.get("configMap"))
