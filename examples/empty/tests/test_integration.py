"""What the integration does."""

from tieline.testing import Project


def test_it_loads(tieline_project: Project) -> None:
    assert tieline_project.get("/").status == 404
