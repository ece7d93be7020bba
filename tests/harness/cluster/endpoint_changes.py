"""Where a Service leads, as it changes: what explains a connection that was refused."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

from tests.harness.cluster.kubectl import Kubectl


@dataclass
class EndpointChanges:
    """Follows the EndpointSlices of a Service until the ``with`` block ends."""

    kubectl: Kubectl
    namespace: str
    service: str
    seen: list[str] = field(default_factory=list)
    """A line a change: seconds since the block began, then each address with what it may take."""

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        context = ["--context", self.kubectl.context] if self.kubectl.context else []
        self._watch = subprocess.Popen(
            [
                *(*self.kubectl.argv, *context, "-n", self.namespace, "get", "endpointslices"),
                *("-l", f"kubernetes.io/service-name={self.service}", "--watch", "-o", "json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "KUBECONFIG": str(self.kubectl.kubeconfig)},
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._watch.terminate()
        self._watch.wait(30)
        self._thread.join(30)

    def _follow(self) -> None:
        assert self._watch.stdout is not None
        text, decoder = "", json.JSONDecoder()
        for line in self._watch.stdout:
            text += line
            if line.rstrip() == "}":
                slice_, _ = decoder.raw_decode(text)
                text = ""
                shown = ", ".join(map(_shown, slice_.get("endpoints") or ())) or "nothing"
                self.seen.append(f"after {time.monotonic() - self._began:.2f} s: {shown}")


def _shown(endpoint: dict[str, Any]) -> str:
    conditions = [name for name, holds in sorted(endpoint.get("conditions", {}).items()) if holds]
    return f"{endpoint['addresses'][0]} {'+'.join(conditions) or 'not ready'}"
