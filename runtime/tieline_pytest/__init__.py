"""The pytest plugin: fixtures for tests of integrations. Nothing of Tieline is imported before a test wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tieline.testing import EmulatedProvider, FakeConnection, Project


# A main.py far above belongs to something else. (pytest's root may be the folder of the tests.)
_HIGHEST = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting ``tieline_folder`` of pytest's configuration file."""
    parser.addini("tieline_folder", "the project's folder, relative to the configuration file", default="")


@pytest.fixture
def tieline_folder(request: pytest.FixtureRequest) -> Path:
    """The project's folder: the setting ``tieline_folder``, else the nearest above the test that holds a main.py, or
    one in ``integration/``. Override it to name another.
    """
    config = request.config
    if given := config.getini("tieline_folder"):
        return config.rootpath / str(given)
    for folder in request.path.parents[:_HIGHEST]:
        if (folder / "main.py").is_file() or (folder / "integration" / "main.py").is_file():
            return folder
    raise pytest.UsageError(
        f"There is no main.py in the folders above {request.path.name}; name the project's folder by the setting "
        "tieline_folder, or by a fixture of this name that returns its path"
    )


@pytest.fixture
def tieline_project(tieline_folder: Path) -> Iterator[Project]:
    """The project in ``tieline_folder``, loaded for this test alone; see tieline.testing.Project."""
    from tieline.testing import Project  # noqa: PLC0415  (costs nothing before)

    with Project(tieline_folder) as project:
        yield project
        project.check()


@pytest.fixture
def tieline_fake(tieline_project: Project) -> Callable[..., FakeConnection]:
    """The fake of a connection template: ``tieline_fake("shop").answer("createOrder")``; see Project.connection."""
    return tieline_project.connection


@pytest.fixture
def tieline_provider(tieline_project: Project) -> Callable[..., EmulatedProvider]:
    """A provider of the catalogue: ``slack = tieline_provider("slack")``; see Project.provider."""
    return tieline_project.provider
