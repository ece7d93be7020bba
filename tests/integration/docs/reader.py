"""Somebody who follows a page of the documentation, in an organisation of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.unit.docs.doc_pages import Block, Page
from tieline_core.identity.ids import new_id


class Reader:
    """Does what the blocks say, with a namespace and an id that no other reader has."""

    def __init__(
        self,
        folder: Path,
        kubectl: Kubectl,
        *,
        namespace: str,
        organisation: str,
        variables: Mapping[str, str],
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        """``namespace`` and ``organisation`` are the page's. ``replaced``: what else is this reader's own."""
        identifier = new_id()
        self.folder = folder
        self.organisation = Organisation(identifier, f"{namespace}-{identifier.lower()}")
        own = self.organisation.namespace
        self._replaced = {
            f"-n {namespace}": f"-n {own}",
            f"namespace {namespace}": f"namespace {own}",
            f"namespace: {namespace}": f"namespace: {own}",
            f"={namespace}:": f"={own}:",
            organisation: identifier,
            organisation.lower(): identifier.lower(),
            **(replaced or {}),
        }
        program = folder / "bin" / "kubectl"
        program.parent.mkdir()
        context = ["--context", kubectl.context] if kubectl.context else []
        program.write_text(f'#!/bin/sh\nexec {shlex.join((*kubectl.argv, *context))} "$@"\n')
        program.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubectl.kubeconfig),
            **variables,
        }

    @property
    def namespace(self) -> str:
        return self.organisation.namespace

    def own(self, text: str) -> str:
        """The page's text with what is this reader's own."""
        for before, after in self._replaced.items():
            text = text.replace(before, after)
        return text

    def save(self, page: Page, *languages: str) -> None:
        """The files of the page: blocks of these languages whose mark is a path."""
        for block in page.blocks(*languages):
            path = self.folder / block.mark
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.own(block.text))

    def do(self, block: Block) -> str:
        """What the commands of a block print; they must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.own(block.text)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        return done.stdout
