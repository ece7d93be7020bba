"""Follows the sources of Flux that projects name, and no others.

The cluster may have no Flux: a kind is watched once the first project names it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tieline_core.identity.gitops import repository_of
from tieline_core.kubernetes import Change, Informer, Kube, Resource
from tieline_core.objects import Object
from tieline_core.project_files.config_maps import FilesMissing
from tieline_core.resources.projects import SourceKind, SourceReference

logger = logging.getLogger(__name__)

GROUP = "source.toolkit.fluxcd.io"
RESOURCES = {
    SourceKind.GIT_REPOSITORY: Resource(GROUP, "v1", "gitrepositories", "GitRepository"),
    SourceKind.OCI_REPOSITORY: Resource(GROUP, "v1", "ocirepositories", "OCIRepository"),
    SourceKind.BUCKET: Resource(GROUP, "v1", "buckets", "Bucket"),
    SourceKind.EXTERNAL_ARTIFACT: Resource(GROUP, "v1", "externalartifacts", "ExternalArtifact"),
}
_SYNC_SECONDS = 2.0


class Pending(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """The files are not there yet; the message says what is waited for."""


@dataclass(frozen=True)
class Artifact:
    """A folder with files as of one revision, as source-controller serves it."""

    url: str
    digest: str
    """Of the tar.gz, with its algorithm: ``sha256:…``."""
    revision: str
    repository: str = ""
    """The URL of the source without credentials."""


class FluxSources:
    """Watches the kinds of sources that projects name."""

    def __init__(
        self, kube: Kube, namespaces: Sequence[str], changed: Callable[[str, SourceKind, str], None]
    ) -> None:
        """``changed`` is called with namespace, kind and name of a source that has changed."""
        self._kube = kube
        self._namespaces: Sequence[str | None] = namespaces or [None]
        self._changed = changed
        self._informers: dict[tuple[SourceKind, str | None], Informer] = {}

    async def artifact(self, namespace: str, reference: SourceReference) -> Artifact:
        """What a source serves now.

        Raises FilesMissing, and Pending where the source has not been read, or has nothing to serve yet.
        """
        informer = await self._informer(reference.kind, namespace)
        what = f'{reference.kind.value} "{reference.name}"'
        if not informer.is_synced:
            raise Pending(
                f"{what} cannot be read yet; where this lasts, see that Flux's source-controller is installed and "
                f"that the operator may list {informer.resource.plural}.{GROUP}"
            )
        found = informer.get(namespace, reference.name)
        if found is None:
            raise FilesMissing(
                f"{what} does not exist in namespace {namespace}; create it, or correct spec.source.sourceRef"
            )
        status = found.get("status") or {}
        artifact = status.get("artifact") or {}
        url, digest = artifact.get("url"), artifact.get("digest")
        if not isinstance(url, str) or not isinstance(digest, str):
            raise _nothing_served(what, found)
        return Artifact(
            url=url,
            digest=digest[:256],
            revision=str(artifact.get("revision", ""))[:1024],
            repository=repository_of((found.get("spec") or {}).get("url")),
        )

    async def close(self) -> None:
        """Ends all watches."""
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    async def _informer(self, kind: SourceKind, namespace: str) -> Informer:
        scope = None if self._namespaces == [None] else namespace
        informer = self._informers.get((kind, scope))
        if informer is None:
            informer = Informer(self._kube, RESOURCES[kind], namespace=scope)
            informer.subscribe(partial(self._notify, kind))
            self._informers[kind, scope] = informer
            logger.info("Following %s of Flux", informer.resource.plural)
            await informer.start()
            # Once: where the cluster does not have the kind, no other reconcile waits for it.
            with suppress(TimeoutError):
                async with asyncio.timeout(_SYNC_SECONDS):
                    await informer.synced()
        return informer

    def _notify(self, kind: SourceKind, change: Change) -> None:
        metadata = change.object["metadata"]
        self._changed(metadata["namespace"], kind, metadata["name"])


def _nothing_served(what: str, source: Object) -> Exception:
    conditions = (source.get("status") or {}).get("conditions") or []
    ready = next((item for item in conditions if item.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") == "False":
        return FilesMissing(f"{what} has no artifact: {str(ready.get('message', ''))[:512]}")
    return Pending(f"{what} has no artifact yet")
