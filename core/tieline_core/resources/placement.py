"""Where pods run and what is mounted into them: fields of a PodSpec, with Kubernetes' names and shapes.

Fields that reach another namespace, or the node itself, are not among them.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import Quantity, Shape, list_map, rules

MAX_VOLUMES = 8
MAX_MOUNTS = 16
MAX_TOLERATIONS = 16
MAX_SPREAD = 8
MAX_KEYS = 32
_MAX_TERMS = 8
_MAX_REQUIREMENTS = 16
_MAX_VALUES = 32
_MAX_SOURCES = 8
_MAX_ITEMS = 64
_MAX_ANNOTATION = 1024

# Kubernetes says by itself what is wrong with a name, a label or a path, when the workload is written.
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
Path = Annotated[str, StringConstraints(min_length=1, max_length=512)]
LabelValues = Annotated[dict[str, LabelValue], Field(max_length=MAX_KEYS)]
AnnotationValues = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=_MAX_ANNOTATION)]], Field(max_length=MAX_KEYS)
]


class SelectorOperator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class NodeSelectorOperator(StrEnum):
    """How a requirement compares a node's label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with that of a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Toleration(Shape):
    """Lets pods run on nodes with a taint."""

    key: Annotated[str, StringConstraints(max_length=317)] = ""
    """The taint's key. Empty: all taints, with the operator Exists."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal or Exists. Default: Equal."""
    value: Annotated[str, StringConstraints(max_length=63)] = ""
    """The taint's value, with the operator Equal."""
    effect: TaintEffect | None = None
    """NoSchedule, PreferNoSchedule or NoExecute. Default: all."""
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """Seconds for which a taint with NoExecute is tolerated. Default: for ever."""


Tolerations = Annotated[list[Toleration], Field(max_length=MAX_TOLERATIONS)]


class LabelSelectorRequirement(Shape):
    """A requirement of a pod's labels."""

    key: LabelKey
    """The label."""
    operator: SelectorOperator
    """In, NotIn, Exists or DoesNotExist."""
    values: Annotated[list[LabelValue], Field(max_length=_MAX_VALUES)] = []
    """Values, for In and NotIn."""


class LabelSelector(Shape):
    """Selects pods of the organisation's namespace by their labels."""

    match_labels: LabelValues = {}
    """Labels that pods must have."""
    match_expressions: Annotated[list[LabelSelectorRequirement], Field(max_length=_MAX_REQUIREMENTS)] = []
    """Requirements of their labels."""


class NodeSelectorRequirement(Shape):
    """A requirement of a node's labels."""

    key: LabelKey
    """The label."""
    operator: NodeSelectorOperator
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: Annotated[list[LabelValue], Field(max_length=_MAX_VALUES)] = []
    """Values, for In, NotIn, Gt and Lt."""


class NodeSelectorTerm(Shape):
    """Requirements that a node must all meet."""

    match_expressions: Annotated[list[NodeSelectorRequirement], Field(max_length=_MAX_REQUIREMENTS)]
    """The requirements."""


class NodeSelectorTerms(Shape):
    """Alternatives of which a node must meet one."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1, max_length=_MAX_TERMS)]
    """The alternatives."""


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredSchedulingTerm(Shape):
    """A preference for nodes."""

    weight: Weight
    """Weight from 1 to 100."""
    preference: NodeSelectorTerm
    """The nodes that are preferred."""


class NodeAffinity(Shape):
    """Which nodes pods run on."""

    required_during_scheduling_ignored_during_execution: NodeSelectorTerms | None = None
    """Nodes that pods must run on."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[PreferredSchedulingTerm], Field(max_length=_MAX_TERMS)
    ] = []
    """Nodes that pods should run on."""


class PodAffinityTerm(Shape):
    """Pods of the organisation to be near to, or far from."""

    label_selector: LabelSelector | None = None
    """The pods. Default: those of the environment."""
    topology_key: LabelKey
    """The label of nodes that says what is near, such as topology.kubernetes.io/zone."""


class WeightedPodAffinityTerm(Shape):
    """A preference for being near to pods, or far from them."""

    weight: Weight
    """Weight from 1 to 100."""
    pod_affinity_term: PodAffinityTerm
    """The pods."""


class PodAffinity(Shape):
    """Which pods of the organisation to be near to, or far from."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], Field(max_length=_MAX_TERMS)
    ] = []
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], Field(max_length=_MAX_TERMS)
    ] = []
    """What should hold."""


class Affinity(Shape):
    """Rules for the choice of nodes."""

    node_affinity: NodeAffinity | None = None
    """Rules about nodes."""
    pod_affinity: PodAffinity | None = None
    """Pods of the organisation to be near to."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods of the organisation to be far from."""


class Unsatisfiable(StrEnum):
    """What the scheduler does where a spread is not possible."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadConstraint(Shape):
    """Spreads pods over zones or nodes."""

    max_skew: Annotated[int, Field(ge=1, le=100)]
    """By how many pods two places may differ."""
    topology_key: LabelKey
    """The label of nodes that says what a place is, such as topology.kubernetes.io/zone."""
    when_unsatisfiable: Unsatisfiable
    """DoNotSchedule or ScheduleAnyway."""
    label_selector: LabelSelector | None = None
    """The pods that count. Default: those of the environment."""


class PodMetadata(Shape):
    """Labels and annotations of pods. Those of Tieline, kubernetes.io and k8s.io are reserved."""

    labels: LabelValues = {}
    """Labels, in addition to Tieline's."""
    annotations: AnnotationValues = {}
    """Annotations, in addition to Tieline's."""


class KeyToFile(Shape):
    """Maps a key to a file."""

    key: Name
    """The key."""
    path: Path
    """The file's relative path in the volume."""


Items = Annotated[list[KeyToFile], Field(max_length=_MAX_ITEMS)]


class ConfigMapVolume(Shape):
    """Files from a ConfigMap."""

    name: Name
    """The ConfigMap's name."""
    items: Items = []
    """Maps keys to files. Default: each key is a file of that name."""
    optional: bool = False
    """Lets pods start without it. Default: false."""


class SecretVolume(Shape):
    """Files from a Secret of type tieline.dev/credential that is exposed to code."""

    secret_name: Name
    """The Secret's name."""
    items: Items = []
    """Maps keys to files. Default: each key is a file of that name."""


class SecretProjection(Shape):
    """Files from a Secret of type tieline.dev/credential that is exposed to code."""

    name: Name
    """The Secret's name."""
    items: Items = []
    """Maps keys to files. Default: each key is a file of that name."""


class Medium(StrEnum):
    """Where an emptyDir is."""

    DISK = ""
    MEMORY = "Memory"


class EmptyDirVolume(Shape):
    """An empty folder that ends with the pod."""

    size_limit: Quantity
    """Its maximum size, such as 256Mi."""
    medium: Medium = Medium.DISK
    """Memory for a folder in the pod's memory. Default: the node's disk."""


class VolumeProjection(Shape):
    """One of the sources of a projected volume."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.configMap) != has(self.secret)", "give either configMap or secret")
        )
    )

    config_map: ConfigMapVolume | None = None
    """A ConfigMap."""
    secret: SecretProjection | None = None
    """A Secret."""


class ProjectedVolume(Shape):
    """Files from several ConfigMaps and Secrets in one folder."""

    sources: Annotated[list[VolumeProjection], Field(min_length=1, max_length=_MAX_SOURCES)]
    """The sources."""


class ClaimVolume(Shape):
    """A PersistentVolumeClaim of the namespace."""

    claim_name: Name
    """The claim's name."""
    read_only: bool = False
    """Mounts it read-only. Default: false."""


_SOURCES = ("configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim")
VOLUME_SOURCES = frozenset(_SOURCES)


class Volume(Shape):
    """A volume of the pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"[{', '.join(f'has(self.{one})' for one in _SOURCES)}].filter(given, given).size() == 1",
                f"give exactly one of {', '.join(_SOURCES)}; other kinds of volumes are not allowed",
            )
        )
    )

    name: Name
    """The volume's name."""
    config_map: ConfigMapVolume | None = None
    """Files from a ConfigMap."""
    secret: SecretVolume | None = None
    """Files from a Secret."""
    empty_dir: EmptyDirVolume | None = None
    """An empty folder."""
    projected: ProjectedVolume | None = None
    """Files from several ConfigMaps and Secrets."""
    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim."""

    @property
    def source(self) -> str:
        """The kind of volume, as its field is named; empty where it has none."""
        return next((name for name in self.to_dict() if name in VOLUME_SOURCES), "")


class VolumeMount(Shape):
    """Where a volume is in the pods' file system."""

    name: Name
    """The volume's name."""
    mount_path: Path
    """The absolute path, such as /mnt/rates."""
    sub_path: Path | None = None
    """A path in the volume. Default: all of it."""
    read_only: bool = False
    """Mounts it read-only. Default: false."""


class CaBundle(Shape):
    """A key of a ConfigMap with certificate authorities in PEM."""

    name: Name
    """The ConfigMap's name."""
    key: Name = "ca.crt"
    """The key in the ConfigMap. Default: ca.crt."""


class Placement(Shape):
    """Where pods run, and what is mounted into them."""

    node_selector: LabelValues | None = None
    """Labels of the nodes that pods run on."""
    tolerations: Tolerations | None = None
    """Taints of nodes that pods tolerate, if the administrator allows them."""
    affinity: Affinity | None = None
    """Rules for the choice of nodes."""
    topology_spread_constraints: (
        Annotated[list[TopologySpreadConstraint], Field(max_length=MAX_SPREAD)] | None
    ) = None
    """How pods are spread over zones and nodes."""
    priority_class_name: Name | None = None
    """A PriorityClass, if the administrator allows it."""
    runtime_class_name: Name | None = None
    """A RuntimeClass, if the administrator allows it."""
    pod_metadata: PodMetadata | None = None
    """Labels and annotations of the pods."""
    ca_bundle: CaBundle | None = None
    """Certificate authorities that pods trust in addition to the system's."""
    volumes: (
        Annotated[list[Volume], Field(max_length=MAX_VOLUMES, json_schema_extra=list_map("name"))] | None
    ) = None
    """Volumes of the pods."""
    volume_mounts: (
        Annotated[list[VolumeMount], Field(max_length=MAX_MOUNTS, json_schema_extra=list_map("mountPath"))]
        | None
    ) = None
    """Where the volumes are in the pods' file system."""


_MAX_NAMES = 64
Names = Annotated[list[Name], Field(max_length=_MAX_NAMES)]


class Defaults(Placement):
    """What pods get where neither the project nor the environment sets it."""

    model_config = ConfigDict(extra="forbid")


class Required(Shape):
    """What all pods get."""

    model_config = ConfigDict(extra="forbid")

    node_selector: LabelValues = {}
    """Labels of the nodes that all pods run on."""
    tolerations: Tolerations = []
    """Tolerations that all pods have."""


class Allowed(Shape):
    """What projects may choose."""

    model_config = ConfigDict(extra="forbid")

    tolerations: Tolerations = []
    """Tolerations that projects may set. An operator Exists covers all values, and no effect covers all effects."""
    priority_class_names: Names = []
    """PriorityClasses that projects may set."""
    runtime_class_names: Names = []
    """RuntimeClasses that projects may set."""
    volumes: Annotated[list[str], Field(max_length=_MAX_NAMES)] = sorted(VOLUME_SOURCES)
    """Kinds of volumes that projects may mount. Default: all that Tieline knows."""
    empty_dir_size: Quantity = "1Gi"
    """The maximum size of each emptyDir. Default: 1Gi."""


class PlacementPolicy(Shape):
    """The policy of an organisation."""

    model_config = ConfigDict(extra="forbid")

    defaults: Defaults = Defaults()
    """What pods get where neither the project nor the environment sets it."""
    required: Required = Required()
    """What all pods get."""
    allowed: Allowed = Allowed()
    """What projects may choose."""
