"""Resources that a cluster may have or not."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_core.kubernetes import Informer, KubeError, NotFound, Unavailable
from tieline_core.kubernetes.resources import HTTP_ROUTES
from tieline_operator.cache import cluster_cache
from tieline_operator.cache.cluster_cache import ClusterCache, MultiNamespaceInformer


class Answering:
    """An API server that gives these answers to lists, one after the other."""

    def __init__(self, *answers: KubeError | None) -> None:
        self.answers = list(answers)

    async def list(self, *_: Any, **__: Any) -> list[Any]:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return []


@pytest.mark.parametrize(
    ("answer", "watched"),
    [
        pytest.param(None, 1, id="served"),
        pytest.param(NotFound("no such path", status=404), 0, id="not served"),
    ],
)
async def test_an_api_server_that_is_away_at_the_start_is_asked_again(
    answer: KubeError | None, watched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cache, "_FIRST_BACKOFF", 0.0)
    kube: Any = Answering(Unavailable("away"), Unavailable("away"), answer)
    there = ClusterCache(kube, {HTTP_ROUTES: MultiNamespaceInformer({None: Informer(kube, HTTP_ROUTES)})})
    await there.skip_unserved(HTTP_ROUTES)
    assert kube.answers == []
    assert len(there[HTTP_ROUTES].informers) == watched
