"""``CancelOn``: which events cancel the runs of a task."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CancelOn:
    """Cancels runs of a task by events of a name, where fields of both payloads are equal.

    ``match`` names at most 5 fields (dots lead into objects). Without it, the field of the task's ``key`` is compared.

    >>> CancelOn("order.cancelled", match=["orderId"]).event
    'order.cancelled'
    """

    event: str
    match: Sequence[str] = ()
