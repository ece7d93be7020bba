"""Published API descriptions to import: fetched once into the user's cache, by version, never committed."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson

EXAMPLES = ("@readme/oas-examples", "8.2.2")
GITHUB = ("@octokit/openapi", "23.0.2")
KUBERNETES = "v1.34.4"
_SECONDS = 300
_SUFFIXES = (".json", ".yaml", ".yml")


def examples() -> Iterator[tuple[str, bytes]]:
    """The descriptions of @readme/oas-examples: 2.0, 3.0 and 3.1, in JSON and YAML."""
    with tarfile.open(npm_package(*EXAMPLES)) as archive:
        for member in archive.getmembers():
            parts = member.name.split("/")
            if len(parts) > 3 and parts[1] in ("2.0", "3.0", "3.1") and member.name.endswith(_SUFFIXES):
                content = archive.extractfile(member)
                assert content is not None
                yield "/".join(parts[1:]), content.read()


@cache
def github() -> bytes:
    """GitHub's description: 13 MB of OpenAPI 3.0."""
    with tarfile.open(npm_package(*GITHUB)) as archive:
        content = archive.extractfile("package/generated/api.github.com.json")
        assert content is not None
        return content.read()


@cache
def kubernetes() -> bytes:
    """Kubernetes' own Swagger 2.0, from the Go module that the local cluster is built from."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("Kubernetes' description comes as a Go module: install Go, and run this again")
    module = f"k8s.io/kubernetes@{KUBERNETES}"
    folder = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True, timeout=30)
    path = Path(folder.stdout.strip()) / module / "api" / "openapi-spec" / "swagger.json"
    if not path.exists():
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        subprocess.run([go, "mod", "download", module], check=True, timeout=_SECONDS, env=environment)
    return path.read_bytes()


@cache
def large() -> bytes:
    """22,000 operations in some 47 MB: GitHub's, and copies of them until there are as many."""
    root = orjson.loads(github())
    originals = list(root["paths"].items())
    schemas = orjson.dumps(root["components"]["schemas"])
    for number in range(1, 18):
        for path, item in originals:
            root["paths"][f"/copy{number}{path}"] = {
                key: _slim(operation) for key, operation in item.items() if isinstance(operation, dict)
            }
        if number % 4 == 0:
            own = schemas.replace(b'"#/components/schemas/', f'"#/components/schemas/copy{number}-'.encode())
            for name, schema in orjson.loads(own).items():
                root["components"]["schemas"][f"copy{number}-{name}"] = schema
    return orjson.dumps(root)


def _slim(operation: dict[str, Any]) -> dict[str, Any]:
    """An operation without its examples, which are most of GitHub's bytes."""
    text = orjson.dumps({**operation, "description": operation.get("description", "")[:200]})
    slim: dict[str, Any] = orjson.loads(text)
    slim.pop("operationId", None)
    for response in slim.get("responses", {}).values():
        for media in response.get("content", {}).values():
            media.pop("examples", None)
    return slim


def npm_package(name: str, version: str) -> Path:
    """The archive of an npm package."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tieline" / "descriptions"
    path = folder / f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if path.exists():
        return path
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            f"The descriptions to import come from the npm package {name}: install npm, and run this again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    staging = folder / f"fetching-{os.getpid()}"
    staging.mkdir(exist_ok=True)
    try:
        command = [npm, "pack", f"{name}@{version}", "--silent", "--pack-destination", str(staging)]
        subprocess.run(command, check=True, timeout=_SECONDS, stdout=subprocess.DEVNULL)
        (staging / path.name).rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path
