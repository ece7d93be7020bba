"""The platform's image lacks modules that its build removes, and no process misses one of them."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tieline_api.server.swagger_ui import ASSETS

ROOT = Path(__file__).parents[2]
_IMPORTS = """\
import asyncio, importlib, pkgutil, re, sys
from importlib.machinery import PathFinder

REMOVED = [re.compile(one) for one in sys.argv[3:]]


class Removed:
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name.startswith("kubernetes.") else None
        if spec and spec.origin and not spec.origin.endswith("__init__.py"):
            if any(one.fullmatch(spec.origin) for one in REMOVED):
                raise ImportError(f"the image has no {name}")


sys.meta_path.insert(0, Removed())
for name in (
    "tieline_catalogue", "tieline_common", "tieline_core", "tieline_engine", "tieline_protocol", "tieline_operator",
    "tieline_api",
):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

from tieline_core.kubernetes.kubeconfig import connection

for path in sys.argv[1:3]:
    found = asyncio.run(connection(kubeconfig=path))
    print(found.url, asyncio.run(found.authorization()))
"""


def removed() -> list[str]:
    """The files that the Dockerfile deletes from packages, as Python's regular expressions."""
    text = (ROOT / "Dockerfile").read_text()
    written = re.findall(r"find \S+ -regex '([^']+)'", text)
    assert len(written) == 3
    return [re.sub(r"\\([(|)])", r"\1", one) for one in written]


def kept(package: str) -> list[Path]:
    """The files of an installed package that the image has."""
    (folder,) = importlib.import_module(package).__path__
    patterns = [re.compile(one) for one in removed()]
    files = [path for path in Path(folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return [
        path
        for path in files
        if path.name == "__init__.py" or not any(one.fullmatch(str(path)) for one in patterns)
    ]


_PRINT = (
    'print(\'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", '
    '"status": {"token": "t-2"}}\')'
)
_PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": sys.executable,
    "args": ["-c", _PRINT],
    "interactiveMode": "Never",
}


def test_what_the_image_leaves_out_is_imported_by_nothing(tmp_path: Path) -> None:
    """By no module of the platform, and not when kubeconfigs are read, of tokens and of plugins."""
    for name, user in (("token", {"token": "t-1"}), ("plugin", {"exec": _PLUGIN})):
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": "http://cluster.example"}}],
            "users": [{"name": "me", "user": user}],
        }
        (tmp_path / name).write_text(yaml.safe_dump(kubeconfig))
    (tmp_path / "imports.py").write_text(_IMPORTS)
    command = [sys.executable, tmp_path / "imports.py", tmp_path / "token", tmp_path / "plugin", *removed()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [
        "http://cluster.example Bearer t-1",
        "http://cluster.example Bearer t-2",
    ]


@pytest.mark.parametrize(("package", "most"), [("kubernetes", 5 << 20), ("swagger_ui_bundle", 4 << 20)])
def test_the_image_has_the_used_part_of_a_large_package(package: str, most: int) -> None:
    """Whole, the two take 87 MB, and as much again when they are compiled."""
    assert sum(path.stat().st_size for path in kept(package)) < most


def test_the_image_has_what_the_documentation_page_loads() -> None:
    assert ASSETS.keys() < {path.name for path in kept("swagger_ui_bundle")}
