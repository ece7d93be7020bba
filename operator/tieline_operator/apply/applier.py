"""Carrying out a plan: writes what differs, and nothing else."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from tieline_core.identity.ids import ID_LABEL, change_id, object_id
from tieline_core.identity.names import ENVIRONMENT_LABEL
from tieline_core.kubernetes import (
    AlreadyExists,
    Applied,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Resource,
)
from tieline_operator.apply.conditions import find_condition, full_status
from tieline_operator.apply.diff import contained
from tieline_operator.apply.drift import Drift, DriftReporter
from tieline_operator.apply.event_recorder import EventRecorder
from tieline_operator.apply.ownership import child_refusal, creation_refusal
from tieline_operator.apply.plan import (
    MANAGER,
    Child,
    Creation,
    Object,
    Plan,
    Refusal,
    earliest,
    failed,
    in_progress,
)

logger = logging.getLogger(__name__)

REFUSED = "WorkloadRefused"
# What Kubernetes refuses (a quota, an admission rule, a value) may be allowed later.
REFUSED_AGAIN_AFTER = 60.0
# What was deleted with its owner is gone within moments.
_PASSING_SECONDS = 2.0
# An apply that names this version creates what is not there and conflicts with what is: no object has it.
_NEW = "1"
_TRIES = 3


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


class Lookup(Protocol):
    """The one read of the API server: whose an object is that is in the way (caches hold labelled ones only)."""

    async def list(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> Sequence[Object]: ...


class Applier:
    """Carries out plans."""

    def __init__(
        self,
        kube: Writer,
        lookup: Lookup,
        reader: Reader,
        events: EventRecorder,
        drifts: DriftReporter,
        wrote: Callable[[Resource, Object, Object], None] = lambda _resource, _planned, _written: None,
    ) -> None:
        """``wrote`` is told of each object that a plan was for: as it was planned on, and as it is written."""
        self._kube = kube
        self._lookup = lookup
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
        would be another one at the next look. When a child cannot be written (Kubernetes refuses it, or an object of
        its name belongs to somebody else), the object's Ready says so and the plan looks again later. Raises KubeError
        for all else that fails.
        """
        refusals, any_written = await self._children(resource, obj, plan)
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
        if refusals:
            plan = _refused(plan, refusals)
        elif plan_again and not plan.deletions and any_written:
            plan = await plan_again()
        try:
            if not await self._label(resource, obj):
                plan = replace(plan, requeue_after=earliest(REFUSED_AGAIN_AFTER, plan.requeue_after))
            await self._status(resource, obj, plan, now)
        except NotFound:
            pass  # gone meanwhile: nothing to be said about it
        except Conflict as conflict:
            if not conflict.other_uid:
                raise
        return plan

    async def _children(self, resource: Resource, obj: Object, plan: Plan) -> tuple[Sequence[Refusal], bool]:
        """Makes and mends the children; what could not be written, and whether any differed.

        Without one child of an environment the others of that environment are left as they are; those of other
        environments are not concerned.
        """
        refusals: list[Refusal] = []
        written = False
        for creation in plan.creations:
            written = True
            drift = await self._write_or_refusal(creation, self._create(creation), refusals)
            if refusals:
                break  # the rest refers to it
            if drift:
                await self._drifts.tell(resource, obj, drift)
        without = set()
        for child in plan.children:
            part = part_of(child)
            if part in without or (child.actual is not None and contained(child.desired, child.actual)):
                continue
            written = True
            before = len(refusals)
            drift = await self._write_or_refusal(child, self._apply_child(child), refusals)
            if len(refusals) > before:
                without.add(part)
            if drift:
                await self._drifts.tell(resource, obj, drift)
        return refusals, written

    async def _write_or_refusal(
        self, child: Child | Creation, write: Awaitable[Drift | Refusal | None], refusals: list[Refusal]
    ) -> Drift | None:
        """Waits for a write. That it cannot be done goes into ``refusals``."""
        try:
            result = await write
        except (Invalid, Forbidden) as error:
            message = f"Kubernetes refuses a part of the workload: {error.message[:1024]}"
            refusals.append(Refusal(child=child, reason=REFUSED, message=message))
            return None
        if isinstance(result, Refusal):
            refusals.append(result)
            return None
        return result

    async def _create(self, creation: Creation) -> Drift | Refusal | None:
        resource, desired = creation.resource, creation.desired
        drift = self._drifts.missing(resource, desired)
        try:
            self._reader.observe(resource, await self._kube.create(resource, desired, field_manager=MANAGER))
        except AlreadyExists:
            there = await self._live(resource, desired)
            refusal = creation_refusal(creation, there) if there is not None else None
            if there is not None and refusal is None:
                self._reader.observe(resource, there)
            return refusal
        return drift

    async def _apply_child(self, child: Child) -> Drift | Refusal | None:
        """Writes a child, unless the object of its name is somebody else's.

        The cache may be behind, and holds labelled objects only. So an object that is not in it is created, never
        taken over, and one that is in it is changed only as long as it is that very one (its uid).
        """
        resource, actual = child.resource, child.actual
        if actual is None:
            drift = self._drifts.missing(resource, child.desired)
        else:
            drift = await self._drifts.changed(resource, child.desired, actual)
        for attempt in range(1, _TRIES + 1):
            if actual is not None and (refusal := child_refusal(child, actual)):
                return refusal
            expected = {"resourceVersion": _NEW} if actual is None else {"uid": actual["metadata"]["uid"]}
            desired = {**child.desired, "metadata": {**child.desired["metadata"], **expected}}
            try:
                applied = await self._kube.apply(resource, desired, field_manager=MANAGER, force=True)
            except Conflict:
                if attempt == _TRIES:
                    raise
                actual = await self._live(resource, child.desired)
                continue
            self._reader.observe(resource, applied.object)
            break
        return drift

    async def _live(self, resource: Resource, desired: Mapping[str, Any]) -> Object | None:
        """The object of a child's name as Kubernetes has it at this moment."""
        metadata = desired["metadata"]
        found = await self._lookup.list(
            resource, metadata["namespace"], field_selector=f"metadata.name={metadata['name']}"
        )
        return next(iter(found), None)

    async def _label(self, resource: Resource, obj: Object) -> bool:
        """Puts the id on an object that came without (those of REST and of restores have one).

        False where that is forbidden: in a namespace that is no organisation the policy ``tieline-namespaces`` allows
        nothing but status, which has to say so. The id is the same once it may be written.
        """
        if ID_LABEL in obj["metadata"].get("labels", {}):
            return True
        labelled = _identified(resource, obj)
        labelled["metadata"]["labels"] = {ID_LABEL: object_id(obj)}
        try:
            applied = await self._kube.apply(resource, labelled, field_manager=MANAGER, force=True)
        except Forbidden as error:
            more = {
                "kind": resource.kind,
                "object": f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
            }
            logger.debug("The label with the id cannot be written: %s", error, extra=more)
            return False
        self._wrote(resource, obj, applied.object)
        self._reader.observe(resource, applied.object)
        return True

    async def _status(self, resource: Resource, obj: Object, plan: Plan, now: datetime) -> None:
        status = full_status(obj, plan, now)
        if status == obj.get("status"):
            return
        before = find_condition(obj)
        applied = await self._kube.apply(
            resource,
            {**_identified(resource, obj), "status": status},
            field_manager=MANAGER,
            force=True,
            subresource="status",
        )
        self._wrote(resource, obj, applied.object)
        self._reader.observe(resource, applied.object)
        after = find_condition(applied.object)
        told = ""
        turned = after is not None and (
            before is None or _status_and_reason(before) != _status_and_reason(after)
        )
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
        for notice in plan.events[1:] if plan.events and plan.events[0].reason == told else plan.events:
            warning = {"status": "False", "reason": notice.reason, "message": notice.message}
            await self._events.post(resource, applied.object, warning)


def part_of(child: Child | Creation) -> str | None:
    """The environment that a child of a Project belongs to; None for what belongs to none."""
    name: str | None = (child.desired["metadata"].get("labels") or {}).get(ENVIRONMENT_LABEL)
    return name


def _refused(plan: Plan, refusals: Sequence[Refusal]) -> Plan:
    """The plan for when these children were not written."""
    passing = all(refusal.passing for refusal in refusals)
    after = _PASSING_SECONDS if passing else REFUSED_AGAIN_AFTER
    creations = [refusal for refusal in refusals if isinstance(refusal.child, Creation)]
    if plan.on_refusal is None or creations:
        first = (creations or refusals)[0]
        outcome = (in_progress if first.passing else failed)(first.reason, first.message)
        plan = replace(plan, outcome=outcome)
    else:
        plan = plan.on_refusal(refusals)
    return replace(plan, requeue_after=earliest(after, plan.requeue_after))


_WORDS = {"True": "ready", "False": "not ready", "Unknown": "in progress"}


def _status_and_reason(condition: Mapping[str, Any]) -> tuple[str, str]:
    return condition["status"], condition["reason"]


def _identified(resource: Resource, obj: Object) -> dict[str, Any]:
    """Just this object: with its uid an apply never makes a new one of the same name."""
    metadata = obj["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
    }
