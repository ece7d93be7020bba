"""Types of fields that several kinds share, each with the bounds that keep CEL costs and etcd in check."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from tieline_core.documented_model import DocumentedModel
from tieline_core.identity.display_names import READABLE
from tieline_core.severity import Severity


class Shape(DocumentedModel):
    """A part of a custom resource: camelCase in YAML, snake_case in Python, immutable once read."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
    )

    def to_dict(self) -> dict[str, Any]:
        """The shape as plain JSON data, without what was never set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def rules(*pairs: tuple[str, str], field: str | None = None) -> dict[str, Any]:
    """CEL rules for a schema: pairs of expression and the message that a person reads."""
    extra: dict[str, Any] = {}
    validations = [{"rule": rule, "message": message} for rule, message in pairs]
    if field:
        for validation in validations:
            validation["fieldPath"] = field
    extra["x-kubernetes-validations"] = validations
    return extra


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose items are distinguished by ``keys``: unique, and merged item by item on apply."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def list_set() -> dict[str, Any]:
    """A list of scalars without duplicates."""
    return {"x-kubernetes-list-type": "set"}


def immutable(what: str) -> dict[str, Any]:
    """A field that keeps the value it was created with."""
    return rules(unchanging(what))


def unchanging(what: str) -> tuple[str, str]:
    """The rule of ``immutable``, for a field that has others beside it."""
    return "self == oldSelf", f"{what} cannot be changed; create a new object instead"


STORED_DEFAULT = "x-stored-default"
"""Keyword of a schema: the value that the API server stores where an object has none. Other defaults are not stored, so
that a later release may change them."""


NOT_BLANK = (r'self.matches(r"[^\s\pZ]")', "must not be blank: give at least one character that is no space")
NAMED = {**READABLE, **rules(NOT_BLANK)}
"""For the schema of a name in a CRD alone, as ``READABLE``. REST refuses the same."""

ObjectName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]
EnvironmentName = Annotated[
    str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
MAX_DISPLAY_NAME = 200
DisplayName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_DISPLAY_NAME), Field(json_schema_extra=NAMED)
]
ItemId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Text = Annotated[str, StringConstraints(max_length=2048)]
ShortText = Annotated[str, StringConstraints(max_length=256)]
URL_PATTERN = r"^https?://[^\s/?#@\\]+([/?#]\S*)?$"
"""Without a user and a password before the host: URLs are shown to everyone who may read the object."""
URL_WORDS = (
    "must be a URL that starts with http:// or https://, without spaces, and without a user or password before the "
    "host, which belong in a Secret"
)
Url = Annotated[str, StringConstraints(max_length=2048, pattern=URL_PATTERN)]
Params = Annotated[str, StringConstraints(max_length=4096)]
Ulid = Annotated[str, StringConstraints(max_length=26)]
Scope = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Filename = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Digest = Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]{64}$")]
# Atomic: such an object has one owner. Merged key by key, two writers could make a schema that neither
# wrote, and an apply that takes the last key out of a map leaves null behind.
JsonObject = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
            "maxLength": 32,
        }
    ),
]
Timestamp = Annotated[datetime, WithJsonSchema({"type": "string", "format": "date-time"})]

Labels = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=1024)]],
    Field(
        max_length=64,
        json_schema_extra=rules(
            (
                "self.all(key, size(key) <= 63 && key.matches('^[A-Za-z][A-Za-z0-9_]*$'))",
                "a label key starts with a letter and holds only letters, digits and underscores (at most 63)",
            )
        ),
    ),
]


class Reference(Shape):
    """Another object in the same namespace, by its name."""

    name: ObjectName
    """The name (metadata.name) of the object."""


class ValidationMessage(Shape):
    """A finding of the validation."""

    text: Annotated[str, StringConstraints(max_length=2048)]
    """One sentence that says what was found."""
    severity: Severity
    """Severity: info, warning or error."""
    detail: Annotated[list[Text], Field(max_length=32)] = []
    """Details, such as the errors of a validation."""


class Condition(Shape):
    """One aspect of an object's state, in the form of KEP-1623."""

    type: Annotated[str, StringConstraints(max_length=316)]
    """Type of the condition: Ready, Reconciling, Stalled, …"""
    status: Annotated[str, StringConstraints(pattern="^(True|False|Unknown)$", max_length=7)]
    """True, False (failed) or Unknown (in progress)."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that the condition applies to."""
    last_transition_time: Timestamp
    """When the status last changed."""
    reason: Annotated[
        str, StringConstraints(max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Machine-readable reason, in CamelCase."""
    message: Annotated[str, StringConstraints(max_length=32768)]
    """Human-readable reason, with what to do next."""


class Status(Shape):
    """Observed state of an object. Only the operator writes it."""

    id: Ulid | None = None
    """The object's id. It never changes once it is set, even if the label tieline.dev/id differs."""
    observed_generation: Annotated[int, Field(ge=-1)] | None = None
    """The metadata.generation that the operator last acted on; -1 before it has seen the object."""
    conditions: Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))] = []
    """Conditions of the object, such as Ready."""


class Metadata(Shape):
    """The part of Kubernetes' ObjectMeta that Tieline reads."""

    name: str
    """The object's name."""
    namespace: str = ""
    """The organisation's namespace."""
    uid: str = ""
    """Unique over space and time."""
    labels: dict[str, str] = {}
    """Labels, among them ``tieline.dev/id``."""
    annotations: dict[str, str] = {}
    """Annotations."""
    generation: int = 0
    """Counts the changes of the spec."""
    resource_version: str = ""
    """Changes with every write."""
    creation_timestamp: Timestamp | None = None
    """When the object was created."""
    deletion_timestamp: Timestamp | None = None
    """Set once the object is being deleted."""
