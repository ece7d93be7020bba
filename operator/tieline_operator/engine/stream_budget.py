"""How large the engine's streams may be, so that they fit into its volume and into organisations' quotas. Pure.

Where they do not fit, all are made smaller by the same divisor, as far as they have room for what is in them. Where the
smallest do not fit either, those that exist stay, and new ones are refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.streams import DIVISORS, StreamLimits
from tieline_core.kubernetes.quantities import bytes_shown
from tieline_core.resources.quotas import WHO_MAY_RAISE
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.workload.pods import Failure

QUOTA_EXCEEDED, ENGINE_FULL = "QuotaExceeded", "EngineFull"
_USABLE = 0.9
"""Of the volume: files have headers, and blocks that are being compacted take room twice."""
_CALM = 0.8
"""Streams grow again only where they then take less than this share of what they may."""
_FULL = 0.75
"""A stream is not made so small that what is in it takes more than this share."""
_SMALLEST = len(DIVISORS) - 1
_KEPT = 1024


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Streams that are made together: what they need, and what there is of them."""

    key: StreamKey
    sizes: Sequence[int]
    """Bytes that they may take together, by index of DIVISORS."""
    reserved: int = 0
    """Bytes that those may take which exist; 0 where there are none."""
    smallest: int = _SMALLEST
    """The last index at which they have room for what is in them."""
    quota: int | None = None
    """Bytes that all streams of the organisation may take."""

    @property
    def is_new(self) -> bool:
        """Whether none of them exists."""
        return self.reserved == 0

    def index(self, wanted: int) -> int:
        """The index that they get where ``wanted`` is that of others: what they hold is never cut off."""
        if self.is_new or self.sizes[wanted] >= self.reserved or wanted <= self.smallest:
            return wanted
        present = max((i for i, size in enumerate(self.sizes) if size >= self.reserved), default=0)
        return min(wanted, max(self.smallest, present))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of streams."""

    indices: Mapping[StreamKey, int] = field(default_factory=dict)
    """Of DIVISORS."""
    refusals: Mapping[StreamKey, Failure] = field(default_factory=dict)
    """Why new streams are not made."""
    reserved: int = 0
    """Bytes that all streams may take together."""

    def divisor(self, key: StreamKey) -> int:
        """What the limits of streams are divided by."""
        return DIVISORS[self.indices.get(key, 0)]


def budget(demands: Sequence[Demand], *, volume: int = 0, others: Mapping[str, int] | None = None) -> Budget:
    """The sizes that fit.

    ``volume`` is the size of the engine's volume; 0 where it is not known. ``others`` are bytes of other streams, by
    the namespace of their organisation, or "" for those of nobody.
    """
    taken = others or {}
    refusals: dict[StreamKey, Failure] = {}
    minima: dict[str, int] = {}
    for namespace in sorted({demand.key.namespace for demand in demands}):
        own = [demand for demand in demands if demand.key.namespace == namespace]
        quota = own[0].quota
        if quota is not None:
            capacity = quota - taken.get(namespace, 0)
            minima[namespace] = _index(own, capacity, {})
            if minima[namespace] == _SMALLEST:
                refusals |= dict.fromkeys(_excess(own, capacity, {}), _quota_refusal(quota))
    allowed = [demand for demand in demands if demand.key not in refusals]
    index = 0
    if volume:
        capacity = int(volume * _USABLE) - sum(taken.values())
        index = _index(allowed, capacity, minima)
        if index == _SMALLEST:
            refusals |= dict.fromkeys(_excess(allowed, capacity, minima), _volume_refusal(volume))
    made = [demand for demand in demands if demand.key not in refusals]
    indices = {demand.key: demand.index(max(index, minima.get(demand.key.namespace, 0))) for demand in made}
    reserved = sum(demand.sizes[indices[demand.key]] for demand in made) + sum(taken.values())
    return Budget(indices=indices, refusals=refusals, reserved=reserved)


@lru_cache(maxsize=_KEPT)
def environment_sizes(limits: StreamLimits) -> Sequence[int]:
    """What an environment's streams may take, by index of DIVISORS."""
    return tuple(limits.divided(divisor).environment_bytes for divisor in DIVISORS)


@lru_cache(maxsize=_KEPT)
def organisation_sizes(limits: StreamLimits, *, packages: bool) -> Sequence[int]:
    """What the streams of an organisation itself may take, by index of DIVISORS."""
    return tuple(limits.divided(divisor).organisation_bytes(packages=packages) for divisor in DIVISORS)


def smallest_index(found: Iterable[StreamFacts]) -> int:
    """The last index at which streams have room for what is in them, by their present limits.

    Limits that were divided already count from there, which only keeps streams larger.
    """
    fills = [one.stored / (one.limit * _FULL) for one in found if one.limit]
    fullest = max(fills, default=0.0)
    fitting = (i for i, divisor in enumerate(DIVISORS) if fullest * divisor <= 1)
    return max(fitting, default=0)


def _index(demands: Sequence[Demand], capacity: int, minima: Mapping[str, int]) -> int:
    """The first index at which everything fits; the last one where nothing does."""
    # One organisation's quota must not hold back the others.
    present = max(
        (index for one in demands if (index := _present(one)) > minima.get(one.key.namespace, 0)), default=0
    )
    for index in range(_SMALLEST + 1):
        room = capacity if index >= present else capacity * _CALM
        if sum(_size(demand, index, minima) for demand in demands) <= room:
            return index
    return _SMALLEST


def _excess(demands: Sequence[Demand], capacity: int, minima: Mapping[str, int]) -> Iterable[StreamKey]:
    """The new streams that do not fit at the last index. An organisation's own come before its environments'."""
    left = capacity
    for demand in sorted(demands, key=lambda one: (one.is_new, bool(one.key.secret), one.key)):
        size = _size(demand, _SMALLEST, minima)
        if demand.is_new and size > left:
            yield demand.key
        else:
            left -= size


def _size(demand: Demand, index: int, minima: Mapping[str, int]) -> int:
    return demand.sizes[demand.index(max(index, minima.get(demand.key.namespace, 0)))]


def _present(demand: Demand) -> int:
    """The index of streams that exist; 0 for those that are new, and for any other size."""
    return demand.sizes.index(demand.reserved) if demand.reserved in demand.sizes else 0


def _quota_refusal(quota: int) -> Failure:
    return Failure(
        QUOTA_EXCEEDED,
        f"its events are refused: the streams of the organisation may take {bytes_shown(quota)} in the event engine "
        f"(quota engineStorage), and one more environment does not fit; delete one that you do not need, or "
        f"{WHO_MAY_RAISE}",
    )


def _volume_refusal(volume: int) -> Failure:
    return Failure(
        ENGINE_FULL,
        f"its events are refused: the event engine's volume of {bytes_shown(volume)} has no room for the streams of "
        "one more environment; an administrator of the platform can enlarge it",
    )
