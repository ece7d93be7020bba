"""The examples in docstrings of all packages; those of the SDK's public names are run by test_docstrings.py."""

import doctest
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import tieline

PACKAGES = (
    "tieline_common",
    "tieline_core",
    "tieline_engine",
    "tieline_protocol",
    "tieline_operator",
    "tieline_api",
    "tieline",
    "tieline_cluster",
)
PUBLIC = {
    f"{kind.__module__}.{kind.__qualname__}" for kind in (getattr(tieline, name) for name in tieline.__all__)
}


def modules(package: str) -> list[ModuleType]:
    root = import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    return [root, *(import_module(item.name) for item in found if not item.name.endswith("__main__"))]


def is_public(name: str) -> bool:
    return any(name == public or name.startswith(f"{public}.") for public in PUBLIC)


def examples(package: str) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [
        found
        for module in modules(package)
        for found in finder.find(module, module.__name__)
        if found.examples and not is_public(found.name)
    ]


def test_examples_are_found() -> None:
    """Not every package needs one; without any, the test below would pass for want of something to run."""
    assert sum(len(examples(package)) for package in PACKAGES) > 10


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_do_what_they_say(package: str) -> None:
    told: list[str] = []
    failed = sum(doctest.DocTestRunner().run(found, out=told.append).failed for found in examples(package))
    assert not failed, "".join(told)
