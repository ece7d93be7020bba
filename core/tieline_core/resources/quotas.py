"""Quotas of an organisation: what an administrator lets it use.

They are an annotation of the organisation's Namespace, over the defaults in the platform's settings.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from tieline_core.kubernetes.quantities import amount
from tieline_core.objects import ObjectView
from tieline_core.resources.fields import Shape
from tieline_core.resources.namespace_policies import PolicyError, annotation_of, read_policy

QUOTAS_ANNOTATION = "tieline.dev/quotas"
WHO_MAY_RAISE = (
    f"an administrator of the cluster can raise it in the annotation {QUOTAS_ANNOTATION} of the Namespace"
)
"""What each refusal says of who can do something about it."""
MIN_STREAM_BYTES = 16 << 20
"""The largest message must fit into a stream."""
_MOST_BYTES = 1 << 50
_KEPT = 256


def _size(value: Any) -> Any:
    found = amount(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if found is None:
        raise ValueError("must be a quantity of bytes such as 4Gi")
    return int(found)


Count = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Rate = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Size = Annotated[int, BeforeValidator(_size), Field(ge=MIN_STREAM_BYTES, le=_MOST_BYTES)]
HistorySize = Annotated[int, BeforeValidator(_size), Field(ge=3 * MIN_STREAM_BYTES, le=_MOST_BYTES)]


class Quotas(Shape):
    """The quotas of an organisation. What is absent has the default, and null has no quota."""

    model_config = ConfigDict(extra="forbid")

    environments: Count | None = None
    """Environments of all projects that have a version; drafts do not count."""
    replicas: Count | None = None
    """Pods of all environments together, as they are set."""
    engine_storage: Size | None = None
    """Bytes that the organisation's streams may take in the event engine."""
    state_storage: Size | None = None
    """Bytes of what integrations keep in ctx.state."""
    history_storage: HistorySize | None = None
    """Bytes of the run history, of which a third is for direct runs."""
    events_per_second: Rate | None = None
    """Events that code, queued webhooks and REST publish, over all environments."""
    requests_per_second: Rate | None = None
    """Requests to the REST API, over all of its replicas."""

    def over(self, defaults: "Quotas") -> "Quotas":
        """These quotas, with defaults for what they do not set."""
        unset = type(self).model_fields.keys() - self.model_fields_set
        return self.model_copy(update={name: getattr(defaults, name) for name in unset})


NO_QUOTAS = Quotas()


@dataclass(frozen=True, kw_only=True)
class OrganisationQuotas:
    """The quotas that apply to an organisation."""

    quotas: Quotas = field(default_factory=Quotas)
    problem: str = ""
    """Why its annotation cannot be used; then the defaults apply, and no environment is added."""


def quotas_annotation(namespace: ObjectView | None) -> str:
    """The text of a Namespace's annotation; empty where it has none."""
    return annotation_of(namespace, QUOTAS_ANNOTATION)


def quotas_of(namespace: ObjectView | None, defaults: Quotas) -> OrganisationQuotas:
    """The quotas of the organisation that a Namespace is."""
    return _effective(quotas_annotation(namespace), defaults)


def quotas_setting(text: Any) -> Any:
    """Reads the defaults of all organisations in a setting, for a model's BeforeValidator."""
    try:
        return read_policy(Quotas, text) if isinstance(text, str) else text
    except PolicyError as error:
        raise ValueError(f'must be quotas such as {{"environments": 50}}: {error}') from None


@lru_cache(maxsize=_KEPT)
def _effective(text: str, defaults: Quotas) -> OrganisationQuotas:
    try:
        return OrganisationQuotas(quotas=read_policy(Quotas, text).over(defaults))
    except PolicyError as error:
        problem = (
            f"the annotation {QUOTAS_ANNOTATION} of the Namespace cannot be used: {error}; an administrator of the "
            "cluster must correct it"
        )
        return OrganisationQuotas(quotas=defaults, problem=problem)
