"""What a reconciler decides: pure data, which the applier carries out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tieline_core.kubernetes import Resource

MANAGER = "tieline-operator"
"""The field manager of all that the operator writes."""

Object = Mapping[str, Any]
"""A Kubernetes object as read from a cache: shared, never changed."""

Manifest = dict[str, Any]
"""A Kubernetes object, or a part of one, to be written."""


class Key(NamedTuple):
    """An object to reconcile."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Deferred:
    """Nothing can be decided yet; a callback enqueues the object again."""


@dataclass(frozen=True)
class Outcome:
    """What the Ready condition will say."""

    status: str
    """True, False (failed) or Unknown (in progress)."""
    reason: str
    """One CamelCase word."""
    message: str
    """A sentence: what is missing, and what to do."""


def ready(reason: str, message: str) -> Outcome:
    """The object is as its spec asks."""
    return Outcome("True", reason, message)


def failed(reason: str, message: str) -> Outcome:
    """A failure that waiting will not resolve."""
    return Outcome("False", reason, message)


def in_progress(reason: str, message: str) -> Outcome:
    """Work is in progress."""
    return Outcome("Unknown", reason, message)


def earliest(*seconds: float | None) -> float | None:
    """The shortest of several delays, where None means that there is none."""
    return min((delay for delay in seconds if delay is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class Child:
    """An object that must be in the cluster as ``desired`` says; more in it is left alone."""

    resource: Resource
    desired: Manifest
    actual: Object | None


@dataclass(frozen=True, kw_only=True)
class Creation:
    """An immutable object that must exist; one of this name, owner and content that is there already is it."""

    resource: Resource
    desired: Manifest


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why an object could not be written, now and until something else changes."""

    child: Child | Creation
    reason: str
    """One CamelCase word."""
    message: str
    """A sentence for people."""
    transient: bool = False
    """Whether it ends by itself: Kubernetes is removing the conflicting object."""


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """An object to delete: exactly this one (by uid), not another of its name."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str | None = None
    """If given, the deletion fails when the object has changed since."""

    @classmethod
    def of(cls, resource: Resource, obj: Object, *, unchanged: bool = False) -> "Deletion":
        metadata = obj["metadata"]
        return cls(
            resource=resource,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"] if unchanged else None,
        )


@dataclass(frozen=True)
class PlannedEvent:
    """A Kubernetes Event about a part of the object."""

    reason: str
    """One CamelCase word."""
    message: str
    """A sentence."""
    warning: bool = True
    """Whether it is of type Warning, rather than Normal."""


@dataclass(frozen=True, kw_only=True)
class PlannedCondition:
    """A condition beside Ready."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str
    """One CamelCase word."""
    message: str
    """A sentence."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The result of one reconcile of an object."""

    outcome: Outcome
    status: dict[str, Any] = field(default_factory=dict)
    """The status without observedGeneration and conditions."""
    creations: tuple[Creation, ...] = ()
    children: tuple[Child, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    conditions: tuple[PlannedCondition, ...] = ()
    """Those beside Ready."""
    events: tuple[PlannedEvent, ...] = ()
    """Posted once the status that they belong to is written."""
    on_refusal: "Callable[[Sequence[Refusal]], Plan] | None" = None
    """The plan for when children cannot be written; its status is written instead."""
    requeue_after: float | None = None
    """Seconds after which to reconcile again, when time alone may change the outcome."""
