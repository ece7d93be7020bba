"""How large each stream is to be: the platform's limits, an organisation's quotas, and what fits into the volume."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.streams import StreamLimits
from tieline_core.kubernetes.resources import NAMESPACES
from tieline_core.resources.quotas import Quotas, quotas_of
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.engine.desired_streams import (
    StreamKey,
    needed_stream_names,
    needs_packages,
    stream_keys,
    streams_of,
)
from tieline_operator.engine.stream_budget import (
    Budget,
    Demand,
    budget,
    environment_sizes,
    organisation_sizes,
    smallest_index,
)
from tieline_operator.engine.stream_demand import StreamDemand
from tieline_operator.workload.pods import Failure


class StreamSizes:
    """Plans the sizes by what the last survey has found."""

    def __init__(
        self,
        listers: Listers,
        limits: StreamLimits,
        *,
        quotas: Quotas,
        volume: int,
        demand: StreamDemand,
    ) -> None:
        """``quotas`` are those of organisations that have no others, and ``volume`` the size of the engine's volume.
        ``demand`` knows which environments need streams."""
        self._listers = listers
        self._limits = limits
        self._quotas = quotas
        self._volume = volume
        self._demand = demand
        self._found: Sequence[StreamFacts] = ()
        """All streams of the engine."""
        self._ours: Mapping[str, StreamFacts] = {}
        self._budget = Budget()

    @property
    def refusals(self) -> Mapping[StreamKey, Failure]:
        """Why new streams are not made."""
        return self._budget.refusals

    @property
    def reserved(self) -> int:
        """Bytes that all streams may take together."""
        return self._budget.reserved

    def surveyed(self, found: Sequence[StreamFacts], ours: Mapping[str, StreamFacts]) -> None:
        """Plans by all streams of the engine; ``ours`` are those of this installation by their names."""
        self._found, self._ours = found, ours
        self._budget = self._new_budget()

    def plan(self, key: StreamKey) -> None:
        """Plans again where streams are to be made that the plan does not have, though there is a bound for them."""
        if key in self._budget.indices or key in self._budget.refusals:
            return
        if not self._volume and self._organisation_limits(key.namespace)[1].engine_storage is None:
            return
        if not key.secret or streams_of(self._listers, key) in self._demand:
            self._budget = self._new_budget()

    def limits_of(self, key: StreamKey) -> StreamLimits:
        """The limits of streams that are made together."""
        limits, _ = self._organisation_limits(key.namespace)
        divisor = self._budget.divisor(key)
        return limits if divisor == 1 else limits.divided(divisor)

    def _organisation_limits(self, namespace: str) -> tuple[StreamLimits, Quotas]:
        """The limits of streams with an organisation's quotas, and these."""
        quotas = quotas_of(self._listers[NAMESPACES].get(None, namespace), self._quotas).quotas
        limits = self._limits
        if quotas.state_storage is not None:
            limits = replace(limits, state_bytes=quotas.state_storage)
        if quotas.history_storage is not None:
            direct = quotas.history_storage // 3
            limits = replace(limits, direct_bytes=direct, history_bytes=quotas.history_storage - direct)
        return replace(limits, events_per_second=quotas.events_per_second or 0), quotas

    def _new_budget(self) -> Budget:
        demands, names = [], set()
        for key in stream_keys(self._listers):
            organisation = organisation_of(self._listers, key.namespace)
            if organisation is None:
                continue
            limits, quotas = self._organisation_limits(key.namespace)
            if key.secret:
                streams = streams_of(self._listers, key)
                if streams is None or streams not in self._demand:
                    continue
                own: Sequence[str] = streams.names
                sizes = environment_sizes(limits)
            else:
                own = needed_stream_names(self._listers, key.namespace, organisation)
                packages = needs_packages(self._listers, key.namespace)
                sizes = organisation_sizes(limits, packages=packages)
            there = [self._ours[name] for name in own if name in self._ours]
            # Those that were made since the survey are promised too.
            promised = sizes[self._budget.indices[key]] if key in self._budget.indices else 0
            demands.append(
                Demand(
                    key=key,
                    sizes=sizes,
                    reserved=sum(one.limit for one in there) or promised,
                    smallest=smallest_index(there),
                    quota=quotas.engine_storage,
                )
            )
            names |= {one.name for one in there}
        return budget(demands, volume=self._volume, others=self._others(names))

    def _others(self, names: Set[str]) -> Mapping[str, int]:
        """Bytes of streams that are not in the budget, such as those of traces and of what is gone."""
        found: Counter[str] = Counter()
        namespaces = {
            identifier: key.namespace
            for key in stream_keys(self._listers)
            if not key.secret and (identifier := organisation_of(self._listers, key.namespace))
        }
        for one in self._found:
            if one.name in names and self._ours.get(one.name) is one:
                continue
            parts = one.name.split("_")
            found[namespaces.get(parts[1], "") if len(parts) > 1 else ""] += max(one.limit, one.stored)
        return found
