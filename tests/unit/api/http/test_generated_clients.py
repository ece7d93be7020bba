"""Clients that generators make from our OpenAPI document have all operations, and compile."""

import json
import shutil
from pathlib import Path

import pytest

from tests.harness.clients.generators import GO_MODULE, Generators, generators, run
from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import document

IDS = [operation.id for operation in OPERATIONS]
TSC = ("--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler")
TSC += ("--target", "es2022", "--lib", "es2022,dom,dom.iterable")


@pytest.fixture(scope="module")
def tools() -> Generators:
    return generators()


@pytest.fixture
def described(tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(OPERATIONS, title="Tieline", version="1")))
    return file


def test_openapi_python_client_generates_every_operation(tools: Generators, described: Path) -> None:
    folder = described.parent
    (folder / "config.yaml").write_text("post_hooks: []\n")
    generate = ["-m", "openapi_python_client", "generate", "--meta", "none", "--output-path", "client"]
    said = run([tools.python, *generate, "--config", "config.yaml", "--path", described], folder)
    assert "Unable" not in said
    assert "WARNING" not in said
    modules = [one for one in (folder / "client/api").glob("*/*.py") if one.name != "__init__.py"]
    assert len(modules) == len(OPERATIONS)
    names = [".".join(one.relative_to(folder).with_suffix("").parts) for one in modules]
    run([tools.python, "-W", "error", "-c", "\n".join(f"import {name}" for name in names)], folder)


def test_openapi_typescript_generates_every_operation(tools: Generators, described: Path) -> None:
    folder = described.parent
    said = run(
        [*tools.of_node("openapi-typescript", "bin/cli.js"), described, "--output", "client.ts"], folder
    )
    assert "warn" not in said.lower()
    uses = "\n".join(f'export type {name} = operations["{name}"]["responses"];' for name in IDS)
    (folder / "uses.ts").write_text(f'import type {{ operations }} from "./client";\n{uses}\n')
    run([*tools.of_node("typescript", "bin/tsc"), *TSC, "uses.ts"], folder)


def test_hey_api_generates_every_operation(tools: Generators, described: Path) -> None:
    folder = described.parent
    said = run([*tools.of_node("@hey-api/openapi-ts", "bin/run.js"), "-i", described, "-o", "client"], folder)
    assert "Skipping" not in said
    uses = "\n".join(f"client.{name};" for name in IDS)
    (folder / "uses.ts").write_text(f'import * as client from "./client";\n{uses}\n')
    run([*tools.of_node("typescript", "bin/tsc"), *TSC, "uses.ts"], folder)


def test_oapi_codegen_generates_every_operation(tools: Generators, described: Path) -> None:
    folder = described.parent
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO_MODULE / name, folder)
    run(
        [tools.oapi_codegen, "-generate", "types,client", "-package", "client", "-o", "client.go", described],
        folder,
    )
    uses = "\n".join(f"var _ = (*ClientWithResponses).{_go_method(one.id, one.body)}" for one in OPERATIONS)
    (folder / "uses.go").write_text(f"package client\n\n{uses}\n")
    run([tools.go, "build", "."], folder)


def _go_method(identifier: str, body: object) -> str:
    return f"{identifier[0].upper()}{identifier[1:]}{'WithBody' if body else ''}WithResponse"
