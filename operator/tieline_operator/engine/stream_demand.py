"""Which environments need their streams: streams cost the engine memory, and code without events needs none."""

from collections.abc import Mapping

from nats.aio.client import Client

from tieline_core.engine.account_clients import accounts_with_clients, client_names
from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.trust import AccountSigner
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.engine.desired_streams import StreamKey, environments
from tieline_protocol.event_streams import EventStreams


class StreamDemand:
    """The environments that have streams, or to whose account somebody has connected who needs them.

    It forgets none of them as long as the environment exists, so streams are never deleted because nobody is connected.
    """

    def __init__(self, listers: Listers) -> None:
        self._listers = listers
        self._needed: set[EventStreams] = set()
        self._platform = ""
        """The account from which the ids of the others follow."""
        self._by_account: Mapping[str, tuple[StreamKey, EventStreams]] = {}

    def __contains__(self, streams: EventStreams | None) -> bool:
        return streams in self._needed

    def client_connected(self, signer: AccountSigner, account: str, client: str) -> StreamKey | None:
        """The environment whose streams are needed from now on, since a client of this name has connected.

        None where they were needed before, or are not. ``signer`` is of the platform's account.
        """
        if account == signer.account:
            return None
        if signer.account != self._platform or account not in self._by_account:
            self._map_accounts(signer)
        key, streams = self._by_account.get(account, (None, None))
        if streams is None or streams in self._needed or not streams.is_needed_by(client):
            return None
        self._needed.add(streams)
        return key

    async def survey(self, system: Client, signer: AccountSigner, ours: Mapping[str, StreamFacts]) -> None:
        """Looks at which streams there are, by name, and who is connected.

        Raises EngineAnswerError and the errors of nats-py.
        """
        self._map_accounts(signer)
        known = {streams for _, streams in self._by_account.values()}
        self._needed &= known
        self._needed |= {streams for streams in known if any(name in ours for name in streams.names)}
        for account in await accounts_with_clients(system) & self._by_account.keys():
            _, streams = self._by_account[account]
            if streams in self._needed:
                continue
            if any(map(streams.is_needed_by, await client_names(system, account))):
                self._needed.add(streams)

    def _map_accounts(self, signer: AccountSigner) -> None:
        self._platform = signer.account
        self._by_account = {
            signer.of_environment(streams).account: (key, streams)
            for key, streams in environments(self._listers).items()
        }
