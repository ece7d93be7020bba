"""``kubectl`` on the session's cluster, and organisations made with it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster import object_reads
from tests.harness.session.waiting import eventually
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Kubectl:
    """``kubectl`` on the session's cluster: ``kubectl("get", "pods", namespace=…)``."""

    argv: tuple[str, ...]
    kubeconfig: Path
    context: str | None = None

    def __call__(
        self,
        *arguments: str,
        namespace: str | None = None,
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        chosen = ["--context", self.context] if self.context else []
        command = [*self.argv, *chosen, *(["-n", namespace] if namespace else []), *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        assert not (check and done.returncode), f"{' '.join(command)}: {done.stderr}"
        return done

    def read(self, *what: str, namespace: str | None = None) -> Any:
        """What ``kubectl get <what> -o json`` prints, where it can be without a kubectl."""
        try:
            return object_reads.read(self.kubeconfig, self.context, what, namespace)
        except object_reads.UnreadableError:
            return json.loads(self("get", *what, "-o", "json", namespace=namespace).stdout)


def install_definitions(kubectl: Kubectl, *source: str) -> None:
    """Applies the definitions of ``source`` (``-f`` or ``-k``), and waits until they can be used.

    ``kubectl wait`` fails at once for one whose conditions are null, as they are for a moment
    (kubernetes/kubernetes#66439).
    """
    applied = kubectl("apply", "--server-side", "--force-conflicts", *source, "-o", "name").stdout.split()
    eventually(
        "Definitions are established",
        lambda: kubectl("wait", "--for=condition=Established", "--timeout=60s", *applied),
    )


@dataclass(frozen=True)
class Organisation:
    """A namespace that is an organisation."""

    id: str
    namespace: str


def make_organisation(kubectl: Kubectl) -> Organisation:
    """A namespace with an organisation's label, where only restricted pods may be."""
    identifier = new_id()
    name = f"org-{identifier.lower()}"
    labels = {ORGANISATION_LABEL: identifier, "pod-security.kubernetes.io/enforce": "restricted"}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(made))
    return Organisation(id=identifier, namespace=name)


def relabel(kubectl: Kubectl, namespace: str, identifier: str | None) -> None:
    """Gives a namespace another organisation's id, or none, as an administrator does who means it."""
    column = f"jsonpath={{.metadata.labels.{ORGANISATION_LABEL.replace('.', chr(92) + '.')}}}"
    carried = kubectl("get", "namespace", namespace, "-o", column).stdout
    kubectl("annotate", "namespace", namespace, "--overwrite", f"tieline.dev/previous-organisation={carried}")
    label = f"{ORGANISATION_LABEL}={identifier}" if identifier else f"{ORGANISATION_LABEL}-"
    kubectl("label", "namespace", namespace, "--overwrite", label)


@contextmanager
def an_organisation(kubectl: Kubectl) -> Iterator[Organisation]:
    """An organisation that goes with the end of the block."""
    made = make_organisation(kubectl)
    try:
        yield made
    finally:
        kubectl("delete", "namespace", made.namespace, "--wait=false")
