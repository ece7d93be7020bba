"""Carrying out a plan: writes what differs, and nothing else."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from tieline_core.ids import ID_LABEL, change_id, object_id
from tieline_core.kube import (
    AlreadyExists,
    Applied,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Resource,
)
from tieline_operator.conditions import find, full_status
from tieline_operator.differences import contained
from tieline_operator.drift import Drift, Drifts
from tieline_operator.events import Events
from tieline_operator.plans import MANAGER, Child, Object, Plan, failed

logger = logging.getLogger(__name__)

REFUSED = "WorkloadRefused"
# What Kubernetes refuses (a quota, an admission rule, a value) may be allowed later.
REFUSED_AGAIN_AFTER = 60.0


class Writer(Protocol):
    """The writes that applying needs of the Kubernetes port."""

    async def create(self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str) -> Object: ...

    async def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
    ) -> Applied: ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> object: ...


class Reader(Protocol):
    """Takes in what was written, so that the next look sees it."""

    def observe(self, resource: Resource, obj: Mapping[str, Any]) -> None: ...


class Applier:
    """Carries out plans."""

    def __init__(
        self,
        kube: Writer,
        reader: Reader,
        events: Events,
        drifts: Drifts,
        wrote: Callable[[Resource, Object, Object], None] = lambda _resource, _planned, _written: None,
    ) -> None:
        """``wrote`` is told of each object that a plan was for: as it was planned on, and as it is written."""
        self._kube = kube
        self._wrote = wrote
        self._reader = reader
        self._events = events
        self._drifts = drifts

    async def carry_out(
        self,
        resource: Resource,
        obj: Object,
        plan: Plan,
        now: datetime,
        plan_again: Callable[[], Awaitable[Plan]] | None = None,
    ) -> Plan:
        """Makes the cluster what ``plan`` says. Returns the plan as it came out.

        With ``plan_again`` the status is what is to be said once the children are written: one write, where there
        would be another one at the next look. When Kubernetes refuses a child, the object's Ready says so and the
        plan looks again later. Raises KubeError for all else that fails.
        """
        refused, any_written = await self._children(resource, obj, plan)
        for deletion in plan.deletions:
            self._drifts.deleting(deletion.uid)
            with suppress(NotFound, Conflict):
                await self._kube.delete(
                    deletion.resource,
                    deletion.name,
                    deletion.namespace,
                    uid=deletion.uid,
                    resource_version=deletion.resource_version,
                )
        if refused:
            plan = refused
        elif plan_again and not plan.deletions and any_written:
            plan = await plan_again()
        try:
            await self._label(resource, obj)
            await self._status(resource, obj, plan, now)
        except NotFound:
            pass  # gone meanwhile: nothing to be said about it
        except Conflict as conflict:
            if not conflict.other_uid:
                raise
        return plan

    async def _children(self, resource: Resource, obj: Object, plan: Plan) -> tuple[Plan | None, bool]:
        """Makes and mends the children; the plan to go on with when one is refused, and whether any differed."""
        child: Child | None = None
        written = False
        try:
            for creation in plan.creations:
                written = True
                drift = await self._create(creation.resource, creation.desired)
                if drift:
                    await self._drifts.tell(resource, obj, drift)
            for child in plan.children:
                if child.actual is not None and contained(child.desired, child.actual):
                    continue
                written = True
                drift = await self._apply_child(child)
                if drift:
                    await self._drifts.tell(resource, obj, drift)
        except (Invalid, Forbidden) as error:
            message = f"Kubernetes refuses a part of the workload: {error.message[:1024]}"
            if child is not None and plan.on_refusal is not None:
                refused = replace(plan.on_refusal(child, message), requeue_after=REFUSED_AGAIN_AFTER)
            else:
                refused = replace(plan, outcome=failed(REFUSED, message), requeue_after=REFUSED_AGAIN_AFTER)
            return refused, written
        return None, written

    async def _create(self, resource: Resource, desired: Mapping[str, Any]) -> Drift | None:
        drift = self._drifts.missing(resource, desired)
        try:
            self._reader.observe(resource, await self._kube.create(resource, desired, field_manager=MANAGER))
        except AlreadyExists:
            return None
        return drift

    async def _apply_child(self, child: Child) -> Drift | None:
        if child.actual is None:
            drift = self._drifts.missing(child.resource, child.desired)
        else:
            drift = await self._drifts.changed(child.resource, child.desired, child.actual)
        applied = await self._kube.apply(child.resource, child.desired, field_manager=MANAGER, force=True)
        self._reader.observe(child.resource, applied.object)
        return drift

    async def _label(self, resource: Resource, obj: Object) -> None:
        """Puts the id on an object that came without (those of REST and of restores have one)."""
        if ID_LABEL in obj["metadata"].get("labels", {}):
            return
        labelled = _identified(resource, obj)
        labelled["metadata"]["labels"] = {ID_LABEL: object_id(obj)}
        applied = await self._kube.apply(resource, labelled, field_manager=MANAGER, force=True)
        self._wrote(resource, obj, applied.object)
        self._reader.observe(resource, applied.object)

    async def _status(self, resource: Resource, obj: Object, plan: Plan, now: datetime) -> None:
        status = full_status(obj, plan, now)
        if status == obj.get("status"):
            return
        before = find(obj)
        applied = await self._kube.apply(
            resource,
            {**_identified(resource, obj), "status": status},
            field_manager=MANAGER,
            force=True,
            subresource="status",
        )
        self._wrote(resource, obj, applied.object)
        self._reader.observe(resource, applied.object)
        after = find(applied.object)
        told = ""
        turned = after is not None and (before is None or _gist(before) != _gist(after))
        if after and (
            turned or obj.get("status", {}).get("observedGeneration") != status["observedGeneration"]
        ):
            logger.info(
                "%s is %s: %s",
                resource.kind,
                _WORDS[after["status"]],
                after["reason"],
                extra={
                    "kind": resource.kind,
                    "object": f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
                    "generation": obj["metadata"].get("generation"),
                    "change": change_id(obj),
                },
            )
        if after and turned:
            told = after["reason"]
            await self._events.post(resource, applied.object, after)
        for notice in plan.notices[1:] if plan.notices and plan.notices[0].reason == told else plan.notices:
            warning = {"status": "False", "reason": notice.reason, "message": notice.message}
            await self._events.post(resource, applied.object, warning)


_WORDS = {"True": "ready", "False": "not ready", "Unknown": "in progress"}


def _gist(condition: Mapping[str, Any]) -> tuple[str, str]:
    return condition["status"], condition["reason"]


def _identified(resource: Resource, obj: Object) -> dict[str, Any]:
    """Just this object: with its uid an apply never makes a new one of the same name."""
    metadata = obj["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
    }
