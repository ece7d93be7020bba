"""What new projects can begin with."""

from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import project_templates as rest
from tieline_api.schemas.projects import File
from tieline_catalogue.project_templates import ProjectTemplate, project_templates

OPERATIONS = Operations("Projects")


@OPERATIONS.add(
    "GET",
    "/api/v2/project-templates",
    id="listProjectTemplates",
    summary="List what new projects can begin with",
    permissions=(),
    errors=(403,),
)
async def list_project_templates(call: Call[None, None]) -> Reply[rest.ProjectTemplateList]:
    """Returns all project templates with their files, at most a few dozen. Create a project, and send the files of one
    with updateFiles or deployProject."""
    return Reply(body=rest.ProjectTemplateList(items=[_to_rest(one) for one in project_templates()]))


def _to_rest(one: ProjectTemplate) -> rest.ProjectTemplate:
    request = one.request
    return rest.ProjectTemplate(
        key=one.key,
        name=one.name,
        summary=one.summary,
        connections=[rest.NeededConnection(**dict(needed)) for needed in one.connections],
        request=rest.ExampleRequest(**dict(request)) if request else None,
        files=[File(filename=path, content=content) for path, content in one.files.items()],
    )
