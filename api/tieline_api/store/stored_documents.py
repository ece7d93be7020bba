"""Documents where they are kept: in the event engine, or in ConfigMaps where there is none."""

from typing import Any

from tieline_api.engine.connection import Engine
from tieline_api.store.carry_over import CarryOver
from tieline_api.store.config_map_documents import ConfigMapDocuments
from tieline_api.store.documents import Document, DocumentKey, Documents, DocumentScope
from tieline_api.store.engine_documents import EngineDocuments
from tieline_core.kubernetes import Kube


def make_documents(kube: Kube, engine: Engine) -> Documents:
    """The store of an API with this engine."""
    if not engine.configured:
        return ConfigMapDocuments(kube)
    documents = EngineDocuments(engine)
    return CarriedDocuments(documents, CarryOver(kube, documents))


class CarriedDocuments:
    """Those of the engine, once it has what ConfigMaps had. See Documents."""

    def __init__(self, documents: EngineDocuments, carry_over: CarryOver) -> None:
        self._documents = documents
        self._carry_over = carry_over

    async def get(self, ref: DocumentKey) -> Document | None:
        """See Documents."""
        await self._carry_over.need(ref)
        return await self._documents.get(ref)

    async def put(
        self, ref: DocumentKey, value: Any, *, anyway: bool, expected: str | None, expires: int | None = None
    ) -> str:
        """See Documents."""
        await self._carry_over.need(ref)
        return await self._documents.put(ref, value, anyway=anyway, expected=expected, expires=expires)

    async def delete(self, ref: DocumentKey, *, anyway: bool, expected: str | None) -> None:
        """See Documents."""
        await self._carry_over.need(ref)
        await self._documents.delete(ref, anyway=anyway, expected=expected)

    async def keys(self, scope: DocumentScope) -> list[str]:
        """See Documents."""
        await self._carry_over.need(scope)
        return await self._documents.keys(scope)
