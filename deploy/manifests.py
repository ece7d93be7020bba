"""The generated files: definitions and types from the models, the chart's files, the kustomize base from the chart.

``python -m deploy.manifests`` writes them, ``--check`` compares instead.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.harness.cluster.manifest_tools import manifest_tools
from tieline_cluster.commands import run
from tieline_cluster.errors import ClusterError
from tieline_cluster.progress import Lines
from tieline_core import crds, object_types

ROOT = Path(__file__).parents[1]
CRDS = Path("crds")
POLICIES = Path("deploy/policies")
BASE = Path("deploy/base")
CHART = Path("deploy/helm/tieline")
CHART_FILES = CHART / "files"
KUSTOMIZATION = "kustomization.yaml"
KUBERNETES = "1.34.0"
HELM_TIMEOUT = 60

_HEADER = f"# Generated from {CHART} by `make manifests`; do not edit. Change it in an overlay.\n"
_BESIDE = ("../../crds", "../policies", "namespace.yaml")
"""What the base lists besides its generated files. helm creates the namespace itself."""

_WRITTEN_BY_HAND = frozenset({CRDS / KUSTOMIZATION, BASE / "namespace.yaml"})

_AMONG_OTHERS = frozenset({object_types.PATH})
"""Generated files in folders of others."""

_SOURCE = re.compile(r"^# Source: tieline/templates/(?P<file>\S+)\n", re.MULTILINE)
_RESOURCES_OF_THEIR_OWN = frozenset({"crds.yaml", "policies.yaml"})
"""Templates that render the chart's files. The base lists the folders that these are copied from."""

_OF_THE_RELEASE = re.compile(
    r"\s+(app\.kubernetes\.io/(instance|version|managed-by)|helm\.sh/chart|checksum/configuration): "
)


def base(rendered: str) -> dict[str, str]:
    """The base's files, from what ``helm template`` prints: one a template, without what marks a release of helm."""
    files: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        if (source := _SOURCE.match(document)) and source["file"] not in _RESOURCES_OF_THEIR_OWN:
            files.setdefault(source["file"], []).append(_plain(document[source.end() :]))
    documents = {name: _HEADER + "---\n".join(found) for name, found in files.items()}
    return {KUSTOMIZATION: _kustomization(sorted(documents)), **documents}


def _plain(document: str) -> str:
    lines = [
        line.rstrip() for line in document.splitlines() if line.strip() and not _OF_THE_RELEASE.match(line)
    ]
    return "".join(f"{line}\n" for line in _without_empty_annotations(lines))


def _without_empty_annotations(lines: Sequence[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() != "annotations:" or _indent(following) > _indent(line):
            yield line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _kustomization(files: Sequence[str]) -> str:
    resources = "".join(f"  - {one}\n" for one in (*_BESIDE, *files))
    return f"""{_HEADER}apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: tieline-system
labels:
  - pairs:
      app.kubernetes.io/part-of: tieline
    includeSelectors: false
resources:
{resources}"""


def _rendered() -> str:
    helm = manifest_tools(Lines()).helm
    place = ("-n", "tieline-system", "--kube-version", KUBERNETES)
    try:
        return run([helm, "template", "tieline", CHART, *place], cwd=ROOT, timeout=HELM_TIMEOUT)
    except ClusterError as error:
        raise SystemExit(str(error)) from error


def generated() -> dict[Path, str]:
    """Paths and contents of all generated files."""
    definitions = crds.files()
    policies = {path.name: path.read_text() for path in (ROOT / POLICIES).glob("*.yaml")}
    del policies[KUSTOMIZATION]
    return {
        **_in(CRDS, definitions),
        **_in(CHART_FILES / "crds", definitions),
        **_in(CHART_FILES / "policies", policies),
        **_in(BASE, base(_rendered())),
        object_types.PATH: object_types.render(),
    }


def _in(folder: Path, files: Mapping[str, str]) -> dict[Path, str]:
    return {folder / name: text for name, text in files.items()}


def differences(wanted: Mapping[Path, str], root: Path) -> list[Path]:
    """The files under ``root`` that differ, are missing, or are left over in a generated folder."""
    folders = {path.parent for path in wanted if path not in _AMONG_OTHERS}
    files = [path for folder in folders for path in (root / folder).iterdir()]
    files += [root / path for path in _AMONG_OTHERS if (root / path).exists()]
    present = {path.relative_to(root): path.read_text() for path in files}
    names = (wanted.keys() | present.keys()) - _WRITTEN_BY_HAND
    return sorted(path for path in names if wanted.get(path) != present.get(path))


def main() -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    check = parser.parse_args().check
    wanted = generated()
    for path in differences(wanted, ROOT):
        if check:
            print(f"{path} is not current: run `make manifests`", file=sys.stderr)
        elif path in wanted:
            (ROOT / path).write_text(wanted[path])
        else:
            (ROOT / path).unlink()
    return 1 if check and differences(wanted, ROOT) else 0


if __name__ == "__main__":
    raise SystemExit(main())
