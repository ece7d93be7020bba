"""What the API server's audit log says: who asked for what, and whether it was allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Right(NamedTuple):
    """What a rule of a role grants, and what a request uses: ``deployments.apps create``."""

    group: str
    resource: str
    """With its subresource: ``pods/log``."""
    verb: str

    def __str__(self) -> str:
        return f"{self.resource}{'.' if self.group else ''}{self.group} {self.verb}"


@dataclass(frozen=True)
class Request:
    """One request for a resource."""

    at: datetime
    user: str
    pod: str
    """The pod whose token was used, if it was one's."""
    right: Right
    namespace: str
    name: str
    allowed: bool
    """By the authoriser; what admission refuses afterwards counts as allowed."""
    created: bool
    """Whether it made the object: an apply does, and needs the right to create for it."""

    @property
    def used(self) -> set[Right]:
        """The rights that it needed."""
        return {self.right, self.right._replace(verb="create")} if self.created else {self.right}


def requests(log: Path, *, since: datetime) -> Iterator[Request]:
    """All requests for resources that the log has, older files of it too, oldest first."""
    for file in (*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log):
        with file.open() as lines:
            # The last line may be half written.
            found = (_request(json.loads(line)) for line in lines if line.endswith("\n"))
            yield from (one for one in found if one is not None and one.at >= since)


def _request(event: dict[str, Any]) -> Request | None:
    what = event.get("objectRef")
    # The end of a watch is told too; its beginning was.
    if what is None or (event["verb"] == "watch" and event["stage"] == "ResponseComplete"):
        return None
    subresource = f"/{what['subresource']}" if "subresource" in what else ""
    right = Right(what.get("apiGroup", ""), what["resource"] + subresource, event["verb"])
    extra = event["user"].get("extra", {})
    return Request(
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        user=event["user"]["username"],
        pod=next(iter(extra.get("authentication.kubernetes.io/pod-name", ())), ""),
        right=right,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        allowed=event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow",
        created=right.verb == "patch" and event.get("responseStatus", {}).get("code") == 201,
    )
