"""Quotas of an organisation in REST."""

from typing import Literal

from tieline_api.schemas.base import Rest

QuotaName = Literal[
    "environments",
    "replicas",
    "engineStorage",
    "stateStorage",
    "historyStorage",
    "eventsPerSecond",
    "requestsPerSecond",
]


class Quota(Rest):
    """A quota and what of it is used."""

    name: QuotaName
    """As in the annotation of the Namespace."""
    unit: Literal["environments", "pods", "bytes", "events", "requests"]
    """What is counted."""
    limit: int | None = None
    """The quota; absent where there is none."""
    used: int | None = None
    """What is used now, which can be more than a quota that was lowered; absent while the event engine does not say."""
    left: int | None = None
    """What is left of the quota, at least 0; absent where either is not known."""


class QuotaList(Rest):
    """The quotas of an organisation."""

    items: list[Quota]
    """All quotas, also those that are not set."""
    problem: str | None = None
    """Why the annotation of the Namespace cannot be used; then the platform's defaults apply, and no environment is
    added."""
