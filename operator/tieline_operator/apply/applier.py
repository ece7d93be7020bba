"""Carries out plans by server-side apply: writes what differs, and nothing else."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, Required, TypedDict, Unpack

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
from tieline_operator.apply.conditions import find_condition, full_status, is_terminating
from tieline_operator.apply.diff import contained
from tieline_operator.apply.drift import Drift, DriftReporter, LiveReader
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
_TRANSIENT_SECONDS = 2.0
# An apply that names this version creates what is not there and conflicts with what is: no object has it.
_NEW = "1"
_TRIES = 3


class ApplyOptions(TypedDict, total=False):
    """Options of a server-side apply."""

    field_manager: Required[str]
    force: bool
    subresource: str | None


class Preconditions(TypedDict, total=False):
    """What must be true of an object for its deletion."""

    uid: str | None
    resource_version: str | None


class Writer(Protocol):
    """The writes that applying needs of the Kubernetes port."""

    async def create(self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str) -> Object: ...

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], **options: Unpack[ApplyOptions]
    ) -> Applied: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, **options: Unpack[Preconditions]
    ) -> object: ...


class WriteObserver(Protocol):
    """Receives what was written, so that the next reconcile sees it."""

    def observe(self, resource: Resource, obj: Mapping[str, Any]) -> None: ...


@dataclass(eq=False)
class Applier:
    """Carries out plans."""

    kube: Writer
    live: LiveReader
    observer: WriteObserver
    events: EventRecorder
    drifts: DriftReporter
    wrote: Callable[[Resource, Object, Object], None] = lambda _resource, _planned, _written: None
    """Called with each object that a plan was for: as it was planned on, and as it is written."""

    async def carry_out(
        self,
        resource: Resource,
        obj: Object,
        plan: Plan,
        now: datetime,
        plan_again: Callable[[], Awaitable[Plan]] | None = None,
    ) -> Plan:
        """Makes the cluster what ``plan`` says. Returns the plan that was carried out.

        ``plan_again`` computes the status once the children are written: one write instead of another at the next
        reconcile. When a child cannot be written (Kubernetes refuses it, or an object of its name belongs to
        somebody else), the object's Ready says so and the reconcile is repeated later. Raises KubeError for all
        other failures.
        """
        if await self._was_deleted(resource, obj, plan):
            return plan
        refusals, any_written = await self._children(resource, obj, plan)
        for deletion in plan.deletions:
            self.drifts.deleting(deletion.uid)
            with suppress(NotFound, Conflict):
                await self.kube.delete(
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
            pass  # deleted meanwhile: there is no status to write
        except Conflict as conflict:
            if not conflict.other_uid:
                raise
        return plan

    async def _was_deleted(self, resource: Resource, obj: Object, plan: Plan) -> bool:
        """Whether the children were deleted with the object, which the cache still has. Reads it from the API server.

        What is made again under the name of a child could outlive the object: a garbage collector that could not follow
        the API server either would not notice that the child was deleted, and would leave what that one owns.
        """
        missing = (child for child in plan.children if child.actual is None)
        anew: list[Child | Creation] = [*plan.creations, *missing]
        if not any(self.drifts.missing(each.resource, each.desired) for each in anew):
            return False
        live = await self._live(resource, obj)
        if live is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
            return True
        return is_terminating(live)

    async def _children(self, resource: Resource, obj: Object, plan: Plan) -> tuple[Sequence[Refusal], bool]:
        """Creates and corrects the children; returns what could not be written, and whether any differed.

        When a child of an environment cannot be written, the rest of that environment is left as it is. Other
        environments are not affected.
        """
        refusals: list[Refusal] = []
        written = False
        for creation in plan.creations:
            written = True
            if refusal := await self._refusal(resource, obj, creation, self._create(creation)):
                refusals.append(refusal)
                break  # the rest refers to it
        without = set()
        for child in plan.children:
            part = part_of(child)
            if part in without or (child.actual is not None and contained(child.desired, child.actual)):
                continue
            written = True
            if refusal := await self._refusal(resource, obj, child, self._apply_child(child)):
                refusals.append(refusal)
                without.add(part)
        return refusals, written

    async def _refusal(
        self,
        resource: Resource,
        obj: Object,
        child: Child | Creation,
        write: Awaitable[Drift | Refusal | None],
    ) -> Refusal | None:
        """Waits for a write, and reports the drift that it reverts. Returns why it was refused, if it was."""
        try:
            result = await write
        except (Invalid, Forbidden) as error:
            message = f"Kubernetes refuses a part of the workload: {error.message[:1024]}"
            return Refusal(child=child, reason=REFUSED, message=message)
        if isinstance(result, Drift):
            await self.drifts.report(resource, obj, result)
            return None
        return result

    async def _create(self, creation: Creation) -> Drift | Refusal | None:
        resource, desired = creation.resource, creation.desired
        drift = self.drifts.missing(resource, desired)
        try:
            self.observer.observe(resource, await self.kube.create(resource, desired, field_manager=MANAGER))
        except AlreadyExists:
            existing = await self._live(resource, desired)
            refusal = creation_refusal(creation, existing) if existing is not None else None
            if existing is not None and refusal is None:
                self.observer.observe(resource, existing)
            return refusal
        return drift

    async def _apply_child(self, child: Child) -> Drift | Refusal | None:
        """Writes a child, unless the object of its name is somebody else's.

        The cache may be behind, and holds labelled objects only. So an object that is not in the cache is created,
        never taken over, and a cached one is changed only while its uid is the same.
        """
        resource, actual = child.resource, child.actual
        if actual is None:
            drift = self.drifts.missing(resource, child.desired)
        else:
            drift = await self.drifts.changed(resource, child.desired, actual)
        for attempt in range(1, _TRIES + 1):
            if actual is not None and (refusal := child_refusal(child, actual)):
                return refusal
            expected = {"resourceVersion": _NEW} if actual is None else {"uid": actual["metadata"]["uid"]}
            desired = {**child.desired, "metadata": {**child.desired["metadata"], **expected}}
            try:
                applied = await self.kube.apply(resource, desired, field_manager=MANAGER, force=True)
            except Conflict:
                if attempt == _TRIES:
                    raise
                actual = await self._live(resource, child.desired)
                continue
            self.observer.observe(resource, applied.object)
            break
        return drift

    async def _live(self, resource: Resource, desired: Mapping[str, Any]) -> Object | None:
        """The object of a child's name, read from the API server."""
        metadata = desired["metadata"]
        found = await self.live.list(
            resource, metadata["namespace"], field_selector=f"metadata.name={metadata['name']}"
        )
        return next(iter(found), None)

    async def _label(self, resource: Resource, obj: Object) -> bool:
        """Adds the label with the id to an object without one (those of REST and of restores have it).

        False where that is forbidden: in a namespace that is no organisation the policy ``tieline-namespaces`` allows
        nothing but status, which says so. The id is the same once it may be written.
        """
        if ID_LABEL in obj["metadata"].get("labels", {}):
            return True
        labelled = _identified(resource, obj)
        labelled["metadata"]["labels"] = {ID_LABEL: object_id(obj)}
        try:
            applied = await self.kube.apply(resource, labelled, field_manager=MANAGER, force=True)
        except Forbidden as error:
            more = {
                "kind": resource.kind,
                "object": f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
            }
            logger.debug("The label with the id cannot be written: %s", error, extra=more)
            return False
        self.wrote(resource, obj, applied.object)
        self.observer.observe(resource, applied.object)
        return True

    async def _status(self, resource: Resource, obj: Object, plan: Plan, now: datetime) -> None:
        status = full_status(obj, plan, now)
        if status == obj.get("status"):
            return
        before = find_condition(obj)
        applied = await self.kube.apply(
            resource,
            {**_identified(resource, obj), "status": status},
            field_manager=MANAGER,
            force=True,
            subresource="status",
        )
        self.wrote(resource, obj, applied.object)
        self.observer.observe(resource, applied.object)
        after = find_condition(applied.object)
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
        events = plan.events
        if after and turned:
            await self.events.post(resource, applied.object, after)
            if events and events[0].reason == after["reason"]:
                events = events[1:]
        for planned_event in events:
            await self.events.post(
                resource,
                applied.object,
                {
                    "status": "False" if planned_event.warning else "True",
                    "reason": planned_event.reason,
                    "message": planned_event.message,
                },
            )


def part_of(child: Child | Creation) -> str | None:
    """The environment that a child of a Project belongs to; None for what belongs to none."""
    name: str | None = (child.desired["metadata"].get("labels") or {}).get(ENVIRONMENT_LABEL)
    return name


def _refused(plan: Plan, refusals: Sequence[Refusal]) -> Plan:
    """The plan for when these children were not written."""
    transient = all(refusal.transient for refusal in refusals)
    after = _TRANSIENT_SECONDS if transient else REFUSED_AGAIN_AFTER
    creations = [refusal for refusal in refusals if isinstance(refusal.child, Creation)]
    if plan.on_refusal is None or creations:
        first = (creations or refusals)[0]
        outcome = (in_progress if first.transient else failed)(first.reason, first.message)
        plan = replace(plan, outcome=outcome)
    else:
        plan = plan.on_refusal(refusals)
    return replace(plan, requeue_after=earliest(after, plan.requeue_after))


_WORDS = {"True": "ready", "False": "not ready", "Unknown": "in progress"}


def _status_and_reason(condition: Mapping[str, Any]) -> tuple[str, str]:
    return condition["status"], condition["reason"]


def _identified(resource: Resource, obj: Object) -> dict[str, Any]:
    """Identifies exactly this object: with its uid an apply never creates a new one of the same name."""
    metadata = obj["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
    }
