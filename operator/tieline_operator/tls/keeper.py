"""Keeps the authority and the certificates of API and engine in Secrets of the release's namespace."""

import logging
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tieline_common.authorities import trusting
from tieline_core.identity.names import INTERNAL_API_SERVICE
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.tls import CertificateSource
from tieline_operator.apply.applier import Writer
from tieline_operator.apply.plan import MANAGER, Manifest, Object
from tieline_operator.apply.secret_keeper import Reader, SecretKeeper
from tieline_operator.tls.authority import Authority, certificate, renewed
from tieline_operator.tls.certificates import InvalidCertificateError, bundle
from tieline_operator.tls.objects import (
    API_SECRET,
    AUTHORITY_SECRET,
    ENGINE_SECRET,
    authority_secret,
    certificate_secret,
    read_authorities,
    read_authority,
    read_certificate,
    server_names,
)
from tieline_operator.workload.network_policies import ENGINE

logger = logging.getLogger(__name__)

_CERTIFICATES: Mapping[str, str] = {API_SECRET: INTERNAL_API_SERVICE, ENGINE_SECRET: ENGINE}
"""Secrets by name, with the Service that each is for."""
_LOCAL = "localhost"


class TlsKeeper(SecretKeeper):
    """What clients of API and engine trust, and the Secrets that follow from it."""

    def __init__(
        self,
        kube: Reader,
        writes: Writer,
        *,
        namespace: str,
        source: CertificateSource = CertificateSource.OPERATOR,
        changed: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``changed`` is called when other authorities are trusted than before."""
        super().__init__(kube, writes, namespace=namespace, logger=logger)
        self._source = source
        self._changed = changed
        self._now = now
        self._authority: Authority | None = None
        """As this replica left it: it is written again if its Secret is deleted."""
        self._context: ssl.SSLContext | None = None
        self.trusted = ""
        """The trusted authorities in PEM; "" until they are known."""

    def trust(self) -> ssl.SSLContext:
        """The context for a connection to the engine. Raises OSError until the authorities are known."""
        if self._context is None:
            raise OSError("The authorities of the platform are not known yet")
        return self._context

    async def refresh(self) -> bool:
        """Renews what is due. False where that did not work: then all stays as it is."""
        try:
            if self._source is CertificateSource.CERT_MANAGER:
                await self._read_certificates()
            else:
                await self._keep()
        except (InvalidCertificateError, KubeError) as error:
            return self._failed(f"The certificates cannot be kept: {error}")
        except Exception as error:
            # Its text may quote what was read.
            return self._failed(f"The certificates cannot be kept: {type(error).__name__}")
        return self._succeeded("The certificates are kept again")

    async def _keep(self) -> None:
        now = self._now()
        secret = await self._get(AUTHORITY_SECRET)
        try:
            found, replace_before = read_authority(secret) if secret is not None else (None, None)
        except InvalidCertificateError as error:
            raise InvalidCertificateError(
                f"the Secret {AUTHORITY_SECRET} cannot be used: {error}. Delete it to have another authority made"
            ) from None
        authority = renewed(found or self._authority, now, replace_before=replace_before)
        if authority != found:
            await self._write_authority(authority, secret)
        self._authority = authority
        # Who connects trusts a new authority before a server has a certificate of it.
        self._use(authority.trusted)
        for name, service in _CERTIFICATES.items():
            await self._write_certificate(name, service, authority, now)

    async def _write_authority(self, authority: Authority, secret: Object | None) -> None:
        desired = authority_secret(authority, self._namespace)
        if secret is None:
            # Not applied: another replica that was the leader may just have made one.
            await self._writes.create(SECRETS, desired, field_manager=MANAGER)
        else:
            desired["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
            await self._writes.apply(SECRETS, desired, field_manager=MANAGER, force=True)
        logger.info("Wrote the authority of the platform's certificates", extra={"secret": AUTHORITY_SECRET})

    async def _write_certificate(self, name: str, service: str, authority: Authority, now: datetime) -> None:
        secret = await self._get(name)
        # By port-forward an administrator's own programs reach the engine as localhost.
        local = (_LOCAL,) if name == ENGINE_SECRET else ()
        names = (*server_names(service, self._namespace), *local)
        issued = certificate(read_certificate(secret), authority.current, names, now)
        desired = certificate_secret(name, self._namespace, issued, authority.trusted)
        if not _has_values(secret, desired):
            await self._writes.apply(SECRETS, desired, field_manager=MANAGER, force=True)
            logger.info("Wrote a certificate", extra={"secret": name, "expires": issued.expires.isoformat()})

    async def _read_certificates(self) -> None:
        found = {name: read_authorities(await self._get(name)) for name in _CERTIFICATES}
        if missing := [name for name, authorities in found.items() if not authorities.strip()]:
            raise InvalidCertificateError(
                f"cert-manager has not filled {', '.join(missing)} yet: each needs the authority in ca.crt"
            )
        self._use(bundle(list(found.values())))

    def _use(self, trusted: str) -> None:
        if trusted != self.trusted:
            self._context = trusting(trusted)
            self.trusted = trusted
            self._changed()


def _has_values(actual: Object | None, desired: Manifest) -> bool:
    return actual is not None and (actual.get("data") or {}).items() >= desired["data"].items()
