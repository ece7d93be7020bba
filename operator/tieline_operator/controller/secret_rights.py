"""Gives operator and API the rights to Secrets in each organisation, and takes them back where none is any more.

A RoleBinding in the organisation's namespace refers to the ClusterRole ``tieline-secrets``, which is bound nowhere
else. Every replica follows the Secrets that the rights are for; the leader writes the RoleBindings.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from tieline_core.identity.names import SECRETS_ROLE
from tieline_core.kubernetes import Change, Conflict, Invalid, NotFound, SecretInformers
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.applier import WriteObserver, Writer
from tieline_operator.apply.conditions import is_terminating
from tieline_operator.apply.diff import contained
from tieline_operator.apply.plan import MANAGER, Manifest, Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.queues.workqueue import WorkQueue

logger = logging.getLogger(__name__)

ACCOUNTS = ("tieline-operator", "tieline-api")
"""The ServiceAccounts in the release's namespace that have the rights."""
_WORKERS = 4


def secret_rights(namespace: str, home: str) -> Manifest:
    """The RoleBinding in an organisation's namespace. ``home`` is the release's own namespace."""
    return {
        "apiVersion": r.SECRET_RIGHTS.api_version,
        "kind": r.SECRET_RIGHTS.kind,
        "metadata": {
            "name": r.SECRET_RIGHTS.object_name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "tieline"},
        },
        "roleRef": {"apiGroup": r.CLUSTER_ROLES.group, "kind": r.CLUSTER_ROLES.kind, "name": SECRETS_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home} for name in ACCOUNTS],
    }


class SecretRights:
    """Keeps the RoleBindings while this replica leads."""

    def __init__(
        self, listers: Listers, secrets: SecretInformers, writer: Writer, observer: WriteObserver, home: str
    ) -> None:
        """``home`` is the release's own namespace."""
        self._listers = listers
        self._secrets = secrets
        self._writer = writer
        self._observer = observer
        self._home = home
        self._looking = False
        self.queue: WorkQueue[str] = WorkQueue(self._reconcile, workers=_WORKERS)

    def changed(self, _change: Change) -> None:
        """A namespace, the records of organisations or a RoleBinding has changed."""
        if not self._looking:
            self._looking = True
            # Once for all changes of a moment, such as the first list.
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        organisations = set(self._organisations())
        bound = {namespace_of(one): one for one in self._listers[r.SECRET_RIGHTS].list()}
        given = {name for name in organisations if self._are_given(name, bound.get(name))}
        # Where the rights are gone for a moment, what is known stays known.
        self._secrets.follow({name for name in organisations if name in given or self._secrets.follows(name)})
        lost = {name for name, binding in bound.items() if _gives_rights(binding)} - organisations
        for namespace in organisations - given - bound.keys():
            self.queue.add(namespace)
        for namespace in (organisations & bound.keys()) - given | lost:
            # Somebody else writes it, perhaps again and again.
            self.queue.add_debounced(namespace)

    def _organisations(self) -> Iterable[str]:
        for namespace in self._listers[r.NAMESPACES].list():
            name = namespace["metadata"]["name"]
            if organisation_of(self._listers, name) is not None:
                yield name

    def _are_given(self, namespace: str, binding: Object | None) -> bool:
        return binding is not None and contained(secret_rights(namespace, self._home), binding)

    async def _reconcile(self, namespace: str) -> None:
        binding = self._listers[r.SECRET_RIGHTS].get(namespace, r.SECRET_RIGHTS.object_name)
        try:
            if organisation_of(self._listers, namespace) is None:
                if binding is not None and _gives_rights(binding):
                    await self._delete(binding)
                    logger.info("Took back the rights to Secrets", extra={"namespace": namespace})
            elif not (
                self._are_given(namespace, binding)
                or is_terminating(self._listers[r.NAMESPACES].get(None, namespace))
            ):
                await self._bind(namespace, binding)
                logger.info("Gave the rights to an organisation's Secrets", extra={"namespace": namespace})
        except Exception as error:
            logger.warning(
                "The rights to Secrets cannot be written, trying again: %s",
                str(error) or type(error).__name__,
                extra={"namespace": namespace},
            )
            raise

    async def _bind(self, namespace: str, binding: Object | None) -> None:
        manifest = secret_rights(namespace, self._home)
        try:
            applied = await self._writer.apply(r.SECRET_RIGHTS, manifest, field_manager=MANAGER, force=True)
        except Invalid:
            # The role of a RoleBinding never changes: somebody else's of this name is in the way.
            if binding is None:
                raise
            await self._delete(binding)
            applied = await self._writer.apply(r.SECRET_RIGHTS, manifest, field_manager=MANAGER, force=True)
        self._observer.observe(r.SECRET_RIGHTS, applied.object)

    async def _delete(self, binding: Object) -> None:
        metadata = binding["metadata"]
        with suppress(NotFound, Conflict):
            await self._writer.delete(
                r.SECRET_RIGHTS, metadata["name"], metadata["namespace"], uid=metadata["uid"]
            )


def _gives_rights(binding: Object) -> bool:
    """Whether a RoleBinding of the name is to the role: where no organisation is, others are left alone."""
    role = binding["roleRef"]
    return (role["kind"], role["name"]) == (r.CLUSTER_ROLES.kind, SECRETS_ROLE)
