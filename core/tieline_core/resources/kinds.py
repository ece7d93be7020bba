"""What every kind has in common: its names, its columns, and how it is read from the API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tieline_core.identity import ids
from tieline_core.resources.fields import Condition, Metadata, Shape, Status

GROUP = "tieline.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "tieline"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


ID_COLUMN = Column(name="Id", path=".status.id", description="The id in the REST API", priority=1)
READY_COLUMNS = (
    Column(
        name="Ready",
        path='.status.conditions[?(@.type=="Ready")].status',
        description="Whether the object is ready",
    ),
    Column(name="Reason", path='.status.conditions[?(@.type=="Ready")].reason', description="Why, in a word"),
    Column(name="Age", path=".metadata.creationTimestamp", type="date", description="Time since creation"),
    # A sentence: with it, rows break in a terminal.
    Column(
        name="Message",
        path='.status.conditions[?(@.type=="Ready")].message',
        description="Why, and what to do",
        priority=1,
    ),
    ID_COLUMN,
)


def display_name(path: str, description: str) -> Column:
    """A name for people, which may be long; the table's first column is the name of the object."""
    return Column(name="Display-Name", path=path, description=description, priority=1)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The paths of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The names of a kind, its columns in ``kubectl get``, CEL rules for the whole object, and fields to select by."""

    name: str
    plural: str
    short_names: tuple[str, ...]
    """Each begins with ``tl``: kubectl takes any kind of the cluster that claims a plain one."""
    columns: tuple[Column, ...]
    rules: tuple[tuple[str, str], ...] = ()
    selectable: tuple[str, ...] = ()
    """Paths of what ``--field-selector`` may name, from Kubernetes 1.31 on."""
    scale: Scale | None = None
    """How ``kubectl scale`` and autoscalers set its number of pods."""

    @property
    def singular(self) -> str:
        return self.name.lower()


class CustomResource(Shape):
    """A custom resource as read from the API server; subclasses narrow ``spec`` and ``status``."""

    kind_info: ClassVar[Kind]

    metadata: Metadata
    """Kubernetes' own description of the object."""
    spec: Shape
    """The desired state."""
    status: Status
    """The observed state."""

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> Self:
        """The typed form of ``obj``.

        Raises pydantic's ValidationError for an object that the CRD of this version would refuse.
        """
        return cls.model_validate({"status": {}, **obj})

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def id(self) -> str:
        """The object's ULID: the one that its status records, else its label, else derived from its uid."""
        known = ids.parse_id(self.status.id or "") or ids.parse_id(self.metadata.labels.get(ids.ID_LABEL, ""))
        if known:
            return known
        created = self.metadata.creation_timestamp
        if created is None:
            raise ValueError(f"{self.kind_info.name} {self.name} was never stored: it has no id yet")
        return ids.derived_id(created=created, seed=self.metadata.uid)

    def condition(self, kind: str) -> Condition | None:
        """The condition of type ``kind``, if there is one."""
        return next((c for c in self.status.conditions if c.type == kind), None)
