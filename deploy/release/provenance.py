"""An in-toto statement with SLSA's provenance: which files were built from what, and by whom. It is not signed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.release import checksums
from deploy.release.archives import sha256
from deploy.release.errors import ReleaseError
from deploy.release.source import Source

NAME = "provenance.intoto.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://tieline.dev/docs/releasing#make-it"
OWN_MACHINE = "https://tieline.dev/docs/releasing#on-a-machine-of-your-own"
MATERIALS = (
    "constraints.txt",
    "requirements/build.txt",
    "requirements/console.txt",
    "requirements/installer.txt",
    "requirements/platform.txt",
    "requirements/runtime.txt",
    "console/package-lock.json",
    "Dockerfile",
)
"""What pins everything that is built from, beside the commit."""


def write_provenance(source: Source, folder: Path) -> None:
    """Write the statement about all files of a folder."""
    subjects = {path.name: sha256(path) for path in checksums.files(folder) if path.name != NAME}
    text = json.dumps(statement(source, subjects, os.environ), indent=2, sort_keys=True)
    (folder / NAME).write_text(f"{text}\n", encoding="utf-8")


def statement(source: Source, subjects: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The statement about files with these digests, built in this environment."""
    materials = [{"name": name, "digest": {"sha256": sha256(source.files / name)}} for name in MATERIALS]
    repository = _repository(environment)
    commit = {"digest": {"gitCommit": source.commit}}
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": source.version, "commit": source.commit},
                "resolvedDependencies": [
                    {"uri": f"git+{repository}", **commit} if repository else {"name": "source", **commit},
                    *materials,
                ],
            },
            "runDetails": {"builder": {"id": _builder(environment)}, **_run(environment)},
        },
    }


def _repository(environment: Mapping[str, str]) -> str | None:
    """The repository that GitHub's runner builds."""
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None


def _builder(environment: Mapping[str, str]) -> str:
    server, workflow = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_WORKFLOW_REF")
    return f"{server}/{workflow}" if server and workflow else OWN_MACHINE


def _run(environment: Mapping[str, str]) -> dict[str, Any]:
    run, attempt = environment.get("GITHUB_RUN_ID"), environment.get("GITHUB_RUN_ATTEMPT")
    repository = _repository(environment)
    if not (run and attempt and repository):
        return {}
    return {"metadata": {"invocationId": f"{repository}/actions/runs/{run}/attempts/{attempt}"}}


def require_provenance(folder: Path, digests: Mapping[str, str]) -> None:
    """Raises ReleaseError unless the statement is about these files and no others."""
    try:
        content = json.loads((folder / NAME).read_bytes())
        subjects = {one["name"]: one["digest"]["sha256"] for one in content["subject"]}
        types = (content["_type"], content["predicateType"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{NAME} is no statement about files: {error!r}") from None
    if types != (STATEMENT, PREDICATE):
        raise ReleaseError(f"{NAME} is no statement of provenance, but {' of '.join(types)}")
    if subjects != {name: digest for name, digest in digests.items() if name != NAME}:
        raise ReleaseError(f"{NAME} is about other files than {checksums.NAME}")
