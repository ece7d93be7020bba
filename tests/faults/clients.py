"""Writing to the platform, and telling what is known of a write: done, refused, or nobody knows."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from tests.faults.model import Outcome
from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl

TIME_OUT = 20.0
_REFUSED = re.compile(
    r"\((NotFound|Conflict|Invalid|Forbidden|AlreadyExists|BadRequest|TooManyRequests)\)"
    r"|connection refused|[Aa]pply failed with \d+ conflict"
)


@dataclass(frozen=True)
class WriteResult:
    """How a write ended, and what came back."""

    outcome: Outcome
    status: int
    body: Any
    text: str


@dataclass
class Rest:
    """REST as an administrator, at one of the replicas by chance; ``heard`` gets every answer."""

    urls: list[str]
    token: str
    organisation: str
    rng: random.Random
    heard: Callable[[str, str], None] = lambda _place, _text: None

    def __call__(self, method: str, path: str, body: Any = None, *, url: str = "") -> WriteResult:
        """One request. Nothing that could not be sent has happened; a 5xx says nothing."""
        base = url or self.rng.choice(self.urls)
        whole = f"{base}/api/v2/o/{self.organisation}{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = http(method, whole, body=body, headers=headers, timeout=TIME_OUT)
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            unsent = isinstance(reason, ConnectionRefusedError)
            return WriteResult(Outcome.REFUSED if unsent else Outcome.UNKNOWN, 0, None, str(error))
        text = answer.body.decode("utf-8", "replace")
        self.heard(f"answer of {method} {path}", f"{answer.headers} {text}")
        outcome = Outcome.UNKNOWN
        if answer.status < 500:
            outcome = Outcome.DONE if answer.status < 400 else Outcome.REFUSED
        body = (
            json.loads(text) if text and answer.headers.get("Content-Type", "").startswith("appl") else None
        )
        return WriteResult(outcome, answer.status, body, text)


@dataclass
class KubectlClient:
    """kubectl in one namespace."""

    kubectl: Kubectl
    namespace: str
    heard: Callable[[str, str], None] = field(default=lambda _place, _text: None)

    def apply(self, kind: str, name: str, spec: dict[str, Any]) -> WriteResult:
        """Server-side apply of one of our objects."""
        manifest = {"kind": kind, "metadata": {"name": name}, "spec": spec}
        return self.apply_object({"apiVersion": "tieline.dev/v1alpha1", **manifest})

    def apply_object(self, manifest: dict[str, Any]) -> WriteResult:
        """Server-side apply of any object."""
        return self("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))

    def __call__(self, *arguments: str, stdin: str | None = None) -> WriteResult:
        """One command. A refusal by the API server changed nothing; other errors say nothing."""
        limit = f"--request-timeout={TIME_OUT:.0f}s"
        try:
            done = self.kubectl(
                *arguments, limit, namespace=self.namespace, stdin=stdin, check=False, timeout=3 * TIME_OUT
            )
        except subprocess.TimeoutExpired as error:
            return WriteResult(Outcome.UNKNOWN, 0, None, str(error))
        self.heard(f"kubectl {' '.join(arguments[:3])}", done.stdout + done.stderr)
        if done.returncode == 0:
            return WriteResult(Outcome.DONE, 0, None, done.stdout)
        refused = _REFUSED.search(done.stderr)
        return WriteResult(
            Outcome.REFUSED if refused else Outcome.UNKNOWN, done.returncode, None, done.stderr
        )
