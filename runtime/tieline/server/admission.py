"""Who a request to a webhook comes from, and whom its run is for."""

import logging

from aiohttp import web

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.configuration.users import Users, UsersUnavailableError
from tieline.errors import TielineError
from tieline.integration import Webhook
from tieline.server import handshakes
from tieline.server.refused_error import RefusedError
from tieline.server.sender_certificates import SenderCertificates
from tieline.server.webhook_auth import unauthenticated, verify
from tieline.server.webhook_signatures import Sender
from tieline.telemetry.redaction import current_redactor

logger = logging.getLogger("tieline.run")


class Admission:
    """Admits requests whose senders show what the webhook's connection asks for."""

    def __init__(
        self,
        configuration: Configuration,
        users: Users,
        *,
        public_url: str,
        certificates: SenderCertificates | None = None,
    ) -> None:
        """``public_url`` is the environment's, where the configuration does not say it."""
        self._configuration = configuration
        self._users = users
        self._public_url = public_url
        self.certificates = certificates

    def may_be_handshake(self, webhook: Webhook, request: web.Request) -> bool:
        """Whether a request whose method the webhook does not take can be a handshake of its sender.

        Nothing says so of a dynamic template, before the user is known.
        """
        snapshot = self._configuration.current
        if webhook.connection is None:
            return False
        if connection := snapshot.connections.get(webhook.connection):
            return handshakes.may_be(connection, request)
        known = snapshot.templates.get(webhook.connection)
        return known is not None and known.dynamic

    async def admit(self, webhook: Webhook, request: web.Request) -> tuple[Activation, Sender]:
        """Whom the run is for, once the caller has shown what the webhook's connection asks for, and who that is.

        Raises RefusedError. Nobody finds out which users there are without having shown it.
        """
        snapshot = self._configuration.current
        external_id = request.match_info.get("external_id")
        template = webhook.connection
        if template is None or request.method in webhook.unauthenticated:
            return await self._activation(external_id), Sender()
        if not (known := snapshot.templates.get(template)) or not known.dynamic or external_id is None:
            sender = await self._verify(template, request, None)
            return await self._activation(external_id), sender
        try:
            activation = await self._activation(external_id)
        except RefusedError as refused:
            raise unauthenticated() if refused.status == 404 else refused from None
        return activation, await self._verify(template, request, activation)

    async def _verify(self, template: str, request: web.Request, activation: Activation | None) -> Sender:
        snapshot = self._configuration.current
        try:
            connection = snapshot.connection(template, activation)
        except TielineError as error:
            logger.error("Refused a request to %s, which nobody can authenticate: %s", request.path, error)
            raise unauthenticated() from None
        public_url = snapshot.public_url or self._public_url
        # What is wrong with the signature would tell that there is such a user.
        return await verify(
            connection,
            request,
            public_url=public_url,
            explain=activation is None,
            certificates=self.certificates,
        )

    async def _activation(self, external_id: str | None) -> Activation:
        if external_id is None:
            return self._configuration.current.static
        try:
            activation = await self._users.find(external_id)
        except UsersUnavailableError:
            raise RefusedError(
                503,
                "unavailable",
                "The user's activation cannot be looked up right now; try again in a moment",
                headers={"Retry-After": "2"},
            ) from None
        if activation is None:
            raise RefusedError(404, "not_found", "There is no activation of such a user in this environment")
        if activation.connections:
            current_redactor.set(lambda: activation.redactor)
        return activation
