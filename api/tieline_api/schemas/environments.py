"""Environments of a project in REST: creating, copying, promoting and configuring them."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StringConstraints, WithJsonSchema

from tieline_api.schemas.base import MaybeId, Query, Rest
from tieline_api.schemas.projects import MAX_WAIT_SECONDS, DeployReason, EnvironmentId, EnvVariable
from tieline_core.resources.projects import MAX_ENV, MAX_REPLICAS
from tieline_core.resources.scaling import MIN_IDLE_SECONDS, IdleAfter, MinPods
from tieline_protocol.request_limits import seconds_of

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_MAX_QUANTITY = 32
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _is_a_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "must consist of lower-case letters, digits and hyphens, and begin and end with a letter or digit"
        )
    return name


def _in_upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


NewEnvironmentName = Annotated[
    str,
    Field(min_length=1, max_length=40, json_schema_extra={"pattern": f"^{_NAME.pattern}$"}),
    AfterValidator(_is_a_name),
]
"""The name of a new environment."""
EnvironmentName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""The name of an environment that there is."""


class EnvironmentCreate(Rest):
    """A new environment."""

    name: NewEnvironmentName
    """Its name, unique in the project."""


class EnvironmentClone(Rest):
    """An environment to copy, and what of it."""

    old_env_name: EnvironmentName
    """The environment to copy."""
    new_env_name: NewEnvironmentName
    """The name of the copy, unique in the project."""
    clone_systems: StrictBool = False
    """Whether the copy gets the connection templates, with the connections that static ones are linked to."""
    copy_static_user_variables: StrictBool = False
    """Whether the copy gets the variables of the static activation."""


class EnvironmentSync(DeployReason):
    """From which environment to which."""

    source_env_name: EnvironmentName
    """The environment whose version is deployed."""
    target_env_name: EnvironmentName
    """The environment that it is deployed to."""
    force: StrictBool = False
    """Whether a version is promoted that does not serve in the source environment."""


class WaitQuery(Query):
    """Whether to wait for the end of a rollout."""

    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)] = 0
    """Seconds to wait for the end of the rollout, at most 300. The environment's ``rollout`` has the outcome, or says
    that it is under way still. The answer is 409 when another deploy replaces the version meanwhile."""


def _quantity(value: object) -> str:
    """An amount as Kubernetes writes it; clients also send numbers."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if len(text) > _MAX_QUANTITY or not _QUANTITY.fullmatch(text):
        raise ValueError("must be a quantity such as 500m, 2 or 256Mi")
    return text


Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_QUANTITY.pattern}$", "maxLength": _MAX_QUANTITY},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]


def _idle_after(text: str) -> str:
    if seconds_of(text) < MIN_IDLE_SECONDS:
        raise ValueError("must be 10s to 24h")
    return text


class Amounts(Rest):
    """Amounts of compute resources, in Kubernetes' notation."""

    cpu: Quantity | None = None
    """CPU, such as 500m."""
    memory: Quantity | None = None
    """Memory, such as 256Mi."""


class Resources(Rest):
    """What a pod is given."""

    requests: Amounts | None = None
    """What is reserved."""
    limits: Amounts | None = None
    """What may be used at most."""


class DeploymentSpecUpdate(Rest):
    """Changes of the pods; what is left out stays."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Number of pods."""
    resources: Resources | None = None
    """Compute resources of each pod. They replace those that the environment had of its own; empty for none."""


class ScalingUpdate(Rest):
    """Whether an environment without work keeps pods."""

    min: MinPods | None = None
    """Minimum number of pods. 0: the environment sleeps while it has no work."""
    idle_after: Annotated[IdleAfter, AfterValidator(_idle_after)] | None = None
    """Time without work after which it sleeps: an integer with s, m or h, 10s to 24h."""


class EnvironmentConfigUpdate(Rest):
    """Changes of how an environment runs its code; what is left out stays."""

    deployment_spec: DeploymentSpecUpdate = DeploymentSpecUpdate()
    """Its pods."""
    image: Annotated[str, StringConstraints(max_length=512)] | None = None
    """An image of your own, based on Tieline's runtime image; empty for the project's or the platform's."""
    env: Annotated[list[EnvVariable], Field(max_length=MAX_ENV)] | None = None
    """Environment variables of the environment. They replace those that it had of its own; the project's stay."""
    scaling: ScalingUpdate | None = None
    """Whether it keeps pods without work. It replaces what the environment had of its own; empty for the project's."""


class EnvironmentWork(Rest):
    """Events and queued webhooks of an environment that can run now."""

    waiting: int
    """Those that no pod has taken."""
    running: int
    """Those that a pod has taken."""
    total: int
    """Both: the number for an autoscaler."""


HeaderValues = str | list[str]


class WebhookCall(Rest):
    """A request to a webhook of an environment."""

    url_path: Annotated[str, StringConstraints(min_length=1, max_length=8192)]
    """The path below the environment's address, such as /orders; it may have a query."""
    method: Annotated[
        Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], BeforeValidator(_in_upper_case)
    ]
    """The method."""
    headers: Annotated[dict[str, HeaderValues], Field(max_length=100)] = Field(default_factory=dict)
    """The headers to send, each with one value or several. Those about the connection are left out."""
    query: Annotated[dict[str, HeaderValues], Field(max_length=100)] = Field(default_factory=dict)
    """Parameters of the query, each with one value or several."""
    body: Any = None
    """The body: a string in the encoding that bodyEncoding says, any other value as JSON; null for none."""
    body_encoding: Literal["base64", "text"] | None = None
    """How a body that is a string is written, and that of the answer: base64 (also if absent) or text."""


class WebhookAnswer(Rest):
    """The answer of a webhook."""

    status: int
    """The status."""
    headers: dict[str, list[str]]
    """The headers, with names in lower case; all values of each."""
    body: str
    """The body, at most 1 MiB, in the encoding that bodyEncoding says."""
    body_encoding: Literal["base64", "text"]
    """base64, or text where the request asks for it and the body is UTF-8."""


class CallQuery(Query):
    """Which environment; optional when the project has one."""

    project_env: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The environment's name."""
    env_id: Annotated[EnvironmentId | None, MaybeId] = None
    """The environment's id."""
