"""Pods reach their own environment's streams, and nothing else of the engine. The server asks nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline_core.engine.accounts import list_streams, push_account
from tieline_core.engine.claims import Permissions
from tieline_core.engine.management import MANAGEMENT_PREFIX
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.engine.trust import AccountSigner, BackupAccess
from tieline_core.identity.ids import new_id
from tieline_engine.credentials import Credentials
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.engine.stream_reconciler import ensure_shared_accounts
from tieline_protocol import child_runs
from tieline_protocol.event_streams import PODS, EventStreams, hashed, history_stream
from tieline_protocol.nkeys import KeyKind, KeyPair

ORGANISATION = new_id()
OWN, OTHER = EventStreams(ORGANISATION, new_id()), EventStreams(ORGANISATION, new_id())
STRANGER = EventStreams(new_id(), new_id())
"""An environment of another organisation."""
LIMITS = StreamLimits(
    queue_bytes=1 << 24,
    later_bytes=1 << 24,
    runs_bytes=1 << 24,
    dead_letters_bytes=1 << 24,
    history_bytes=1 << 24,
)


@pytest.fixture
async def admin(engine: NatsServer) -> AsyncIterator[Client]:
    client = await engine.admin()
    for streams in (OWN, OTHER, STRANGER):
        await engine.make_environment(streams, LIMITS)
        await ensure_history(client.jetstream(), streams.organisation, LIMITS)
    yield client
    await client.close()


class Pod:
    """A pod's client, and what the server has refused it."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    async def connect(self, engine: NatsServer) -> Client:
        async def noted(error: Exception) -> None:
            self.refused.append(str(error))

        self.client = await engine.pod(OWN, error_cb=noted)
        return self.client

    async def asks(self, subject: str, **body: Any) -> dict[str, Any]:
        """The answer of JetStream's API."""
        content = json.dumps(body).encode() if body else b""
        answer = await self.client.request(subject, content, timeout=1)
        found: dict[str, Any] = json.loads(answer.data) if answer.data else {"headers": answer.headers}
        return found


@pytest.fixture
async def pod(engine: NatsServer, admin: Client) -> AsyncIterator[Pod]:
    found = Pod()
    client = await found.connect(engine)
    yield found
    await client.close()


async def test_a_pod_publishes_fetches_and_acknowledges_its_own_events(pod: Pod) -> None:
    jetstream = pod.client.jetstream()
    acknowledged = await jetstream.publish(OWN.event("orders", new_id()), b"one")
    assert acknowledged.stream == OWN.queue
    own = await jetstream.pull_subscribe_bind(consumer=PODS, stream=OWN.queue)
    (message,) = await own.fetch(1, timeout=2)
    assert message.data == b"one"
    await message.ack_sync()
    with pytest.raises(nats.errors.TimeoutError):
        await own.fetch(1, timeout=0.3)
    assert pod.refused == []


async def test_a_pod_reads_its_events_of_one_key_in_order_and_deletes_them(pod: Pod) -> None:
    jetstream = pod.client.jetstream()
    key = hashed("ann")
    numbers = [
        (await jetstream.publish(OWN.keyed_event(key, new_id()), str(one).encode())).seq for one in range(3)
    ]
    read = []
    for _ in range(3):
        answer = await pod.client.request(
            f"$JS.API.DIRECT.GET.{OWN.queue}",
            json.dumps({"seq": 1, "next_by_subj": OWN.events_of_key(key)}).encode(),
            timeout=1,
        )
        read.append(answer.data)
        deleted = await pod.asks(
            f"$JS.API.STREAM.MSG.DELETE.{OWN.queue}",
            seq=int((answer.headers or {})["Nats-Sequence"]),
            no_erase=True,
        )
        assert deleted["success"] is True
    assert read == [b"0", b"1", b"2"]
    assert len(set(numbers)) == 3
    assert pod.refused == []


async def test_a_key_has_one_token_at_a_time(pod: Pod) -> None:
    jetstream = pod.client.jetstream()
    token = OWN.key_token(hashed("ben"))
    await jetstream.publish(token, b"")
    with pytest.raises(nats.js.errors.APIError, match="maximum messages per subject exceeded"):
        await jetstream.publish(token, b"")
    own = await jetstream.pull_subscribe_bind(consumer=PODS, stream=OWN.queue)
    (message,) = await own.fetch(1, timeout=2)
    with pytest.raises(nats.js.errors.APIError, match="maximum messages per subject exceeded"):
        await jetstream.publish(token, b"")
    await message.ack_sync()
    await jetstream.publish(token, b"")
    (message,) = await own.fetch(1, timeout=2)
    await message.ack_sync()


async def test_a_pod_keeps_results_of_steps_until_their_run_has_ended(pod: Pod) -> None:
    jetstream, run = pod.client.jetstream(), new_id()
    for occurrence in (1, 2):
        await jetstream.publish(OWN.step(run, "fetch the order", occurrence), str(occurrence).encode())
    other = OWN.step(new_id(), "fetch the order", 1)
    await jetstream.publish(other, b"other")
    purged = await pod.asks(f"$JS.API.STREAM.PURGE.{OWN.runs}", filter=OWN.steps(run))
    assert purged["purged"] == 2
    left = await pod.client.request(f"$JS.API.DIRECT.GET.{OWN.runs}.{other}", b"", timeout=1)
    assert left.data == b"other"


async def test_an_event_that_waits_comes_to_its_own_pods_when_its_time_has_come(pod: Pod) -> None:
    jetstream = pod.client.jetstream()
    at = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {
        "Nats-Schedule": f"@at {at}",
        "Nats-Schedule-Target": OWN.due("run1"),
        "Tieline-Attempt": "2",
    }
    for text in (b"replaced", b"waited"):
        await jetstream.publish(OWN.waiting("run1"), text, headers=headers)
    due = await jetstream.pull_subscribe_bind(consumer=PODS, stream=OWN.later)
    (message,) = await due.fetch(1, timeout=8)
    assert (message.subject, message.data) == (OWN.due("run1"), b"waited")
    assert (message.headers or {})["Tieline-Attempt"] == "2"
    await message.ack_sync()
    with pytest.raises(nats.errors.TimeoutError):
        await due.fetch(1, timeout=0.5)


FORBIDDEN = [
    OTHER.event("orders", "run1"),
    OTHER.keyed_event("abc", "run1"),
    OTHER.waiting("run1"),
    OTHER.due("run1"),
    OWN.due("run1"),
    f"$JS.API.CONSUMER.MSG.NEXT.{OTHER.queue}.{PODS}",
    f"$JS.API.CONSUMER.MSG.NEXT.{OTHER.later}.{PODS}",
    f"$JS.API.CONSUMER.CREATE.{OTHER.runs}.mine",
    f"$JS.API.CONSUMER.CREATE.{OWN.queue}.mine",
    f"$JS.API.CONSUMER.CREATE.{OWN.later}.mine",
    f"$JS.API.CONSUMER.DELETE.{OWN.queue}.{PODS}",
    f"$JS.API.DIRECT.GET.{OTHER.runs}",
    f"$JS.API.DIRECT.GET.{OTHER.later}",
    f"$JS.API.STREAM.MSG.GET.{OTHER.queue}",
    f"$JS.API.STREAM.MSG.DELETE.{OTHER.runs}",
    f"$JS.API.STREAM.MSG.DELETE.{OTHER.later}",
    f"$JS.API.STREAM.PURGE.{OWN.queue}",
    f"$JS.API.STREAM.DELETE.{OWN.queue}",
    f"$JS.API.STREAM.UPDATE.{OWN.queue}",
    OTHER.step("run1", "fetch", 1),
    OTHER.dead("run1"),
    OTHER.approval("approval1", "run1"),
    OTHER.answered("approval1"),
    OTHER.outcome("run1", child_runs.wait_name("run2")),
    OTHER.event(child_runs.ENDED_TASK, "run1"),
    OTHER.history,
    STRANGER.event("orders", "run1"),
    STRANGER.history,
    OWN.control,
    OTHER.control,
    f"$JS.API.STREAM.INFO.{history_stream(ORGANISATION)}",
    f"$JS.API.CONSUMER.CREATE.{history_stream(ORGANISATION)}.mine",
    f"$JS.API.DIRECT.GET.{history_stream(ORGANISATION)}",
    f"$JS.API.STREAM.PURGE.{history_stream(ORGANISATION)}",
    "$JS.API.STREAM.CREATE.mine",
    f"$JS.API.STREAM.INFO.{OTHER.queue}",
    f"{OWN.api_inbox}.answer",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.LIST",
    "$JS.API.INFO",
    f"$JS.ACK.{OTHER.queue}.{PODS}.1.1.1.1.0",
    f"{OTHER.inbox}.answer",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.CLAIMS.UPDATE",
    "anything",
]


@pytest.mark.parametrize("subject", FORBIDDEN)
async def test_a_pod_may_not_publish_elsewhere(pod: Pod, subject: str) -> None:
    with pytest.raises(nats.errors.TimeoutError):
        await pod.client.request(subject, b"{}", timeout=0.3)
    assert len(pod.refused) == 1
    assert "permissions violation for publish" in pod.refused[0].lower()


@pytest.mark.parametrize(
    "subject",
    [
        ">",
        "ev.>",
        OWN.event("orders", "run1"),
        "_INBOX.>",
        f"{OTHER.inbox}.>",
        "_INBOX_API.>",
        f"{OWN.api_inbox}.>",
        OTHER.control,
        "control.>",
        OWN.history,
        "$JS.EVENT.>",
        "$SYS.>",
    ],
)
async def test_a_pod_may_not_listen_elsewhere(pod: Pod, subject: str) -> None:
    await pod.client.subscribe(subject)
    await pod.client.flush()
    await asyncio.sleep(0.05)
    assert len(pod.refused) == 1
    assert "permissions violation for subscription" in pod.refused[0].lower()


@dataclass
class Spies:
    """Everything that is published in an account other than the pod's."""

    seen: list[tuple[str, bytes]] = field(default_factory=list)

    async def listen(self, client: Client) -> None:
        async def note(message: Msg) -> None:
            self.seen.append((message.subject, message.data))

        await client.subscribe(">", cb=note)
        await client.flush()


@pytest.fixture
async def spies(engine: NatsServer, admin: Client) -> AsyncIterator[Spies]:
    found = Spies()
    clients = [await engine.environment(streams) for streams in (OTHER, STRANGER)]
    for client in (admin, *clients):
        await found.listen(client)
    yield found
    for client in clients:
        await client.close()


TARGETS = [
    OTHER.event("orders", "run1"),
    STRANGER.event("orders", "run1"),
    STRANGER.control,
    STRANGER.history,
    f"$JS.API.STREAM.DELETE.{STRANGER.queue}",
    f"$JS.API.STREAM.DELETE.{history_stream(ORGANISATION)}",
    f"$JS.API.STREAM.PURGE.{history_stream(ORGANISATION)}",
    *(
        f"{MANAGEMENT_PREFIX}.STREAM.{operation}.{stream}"
        for operation in ("DELETE", "PURGE")
        for stream in (OTHER.queue, history_stream(ORGANISATION))
    ),
    f"$JS.ACK.{OTHER.queue}.{PODS}.1.1.1.1.0",
    f"$JS.ACK.{STRANGER.queue}.{PODS}.1.1.1.1.0",
    f"{OTHER.inbox}.answer",
    "$SYS.REQ.CLAIMS.UPDATE",
    "anything",
]


async def all_streams(engine: NatsServer) -> dict[str, tuple[int, int]]:
    """All streams of all accounts but the pod's, with what was ever stored in them."""
    system = await engine.client(None, signer=engine.trust.system_users)
    try:
        found = await list_streams(system)
    finally:
        await system.close()
    return {one.name: one.revision for one in found if one.name not in OWN.names}


@pytest.mark.parametrize("target", TARGETS)
async def test_nothing_that_the_server_sends_for_a_pod_leaves_its_account(
    engine: NatsServer, pod: Pod, spies: Spies, target: str
) -> None:
    """The server publishes to the reply subject that a request names, without a permission for it."""
    client, jetstream, run = pod.client, pod.client.jetstream(), new_id()
    inside, own = Spies(), await engine.environment(OWN)
    await inside.listen(own)
    before = await all_streams(engine)
    assert set(before) >= {*OTHER.names, *STRANGER.names, history_stream(ORGANISATION)}
    await jetstream.publish(OWN.step(run, "payload", 1), b"{}")
    await jetstream.publish(OWN.event("orders", run), b"+TERM")
    stored = f"$JS.API.DIRECT.GET.{OWN.runs}.{OWN.step(run, 'payload', 1)}"
    next_event = json.dumps({"batch": 1, "expires": 300_000_000}).encode()
    await client.publish(stored, b"", reply=target)
    await client.publish(f"$JS.API.STREAM.INFO.{OWN.queue}", b"", reply=target)
    await client.publish(OWN.event("orders", new_id()), b"x", reply=target)
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{OWN.queue}.{PODS}", next_event, reply=target)
    await client.publish(OWN.event("orders", new_id()), b"x", headers={"Nats-Trace-Dest": target})
    await client.publish(f"$JS.ACK.{OWN.queue}.{PODS}.1.1.1.1.0", b"+NXT", reply=target)
    await client.flush()
    await asyncio.sleep(0.2)
    await own.close()
    # A control: inside the account it comes to where it is sent. Subscribers do not get to see acknowledgements.
    assert (target, b"{}") in inside.seen or target.startswith("$JS.ACK.")
    assert spies.seen == []
    assert await all_streams(engine) == before
    assert pod.refused, "the server checks where traces go"


async def test_only_its_history_leaves_a_pods_account_and_the_answer_comes_back(
    engine: NatsServer, pod: Pod, spies: Spies
) -> None:
    acknowledged = await pod.client.jetstream().publish(OWN.history, b"records")
    assert acknowledged.stream == history_stream(ORGANISATION)
    assert (OWN.history, b"records") in spies.seen
    before = await all_streams(engine)
    for target in TARGETS:
        await pod.client.publish(OWN.history, b"records", reply=target)
        await pod.client.publish(OWN.history, b"records", headers={"Nats-Trace-Dest": target})
    await pod.client.flush()
    await asyncio.sleep(0.2)
    # JetStream's own answer keeps a reply subject of acknowledgements. It is none: no consumer there asks for them.
    elsewhere = {subject for subject, _ in spies.seen if not subject.startswith(("_R_.", "$JS.ACK."))}
    assert elsewhere == {OWN.history}
    after = await all_streams(engine)
    assert {name for name in after if after[name] != before[name]} == {history_stream(ORGANISATION)}


async def _by_reply(pod: Pod, subject: str, body: Any, account: str = "") -> None:
    """Has the server publish to a subject that the pod may not publish to, as if an account had asked."""
    run = new_id()
    headers = {"Nats-Request-Info": json.dumps({"acc": account, "svc": account})} if account else None
    content = json.dumps(body).encode() if body else b""
    await pod.client.jetstream().publish(OWN.step(run, "body", 1), content, headers=headers)
    await pod.client.publish(f"$JS.API.DIRECT.GET.{OWN.runs}.{OWN.step(run, 'body', 1)}", b"", reply=subject)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_manages_no_streams_or_consumers_of_its_account_either(
    tmp_path: Path, restarted: bool
) -> None:
    """Requests that cost the server much would hold up all others, whose accounts share its API."""
    huge = {"name": OWN.runs, "subjects": OWN.runs_subjects, "storage": "file", "max_bytes": 1 << 40}
    consumer = {"stream_name": OWN.queue, "config": {"durable_name": "mine", "ack_policy": "none"}}
    attempts: list[tuple[str, Any]] = [
        (f"STREAM.DELETE.{OWN.dead_letters}", None),
        ("STREAM.CREATE.more", {"name": "more", "subjects": ["more"], "storage": "file"}),
        (f"STREAM.UPDATE.{OWN.runs}", huge),
        (f"STREAM.RESTORE.{OWN.dead_letters}", {"config": huge}),
        (f"STREAM.SNAPSHOT.{OWN.queue}", {"deliver_subject": f"{OWN.inbox}.snapshot"}),
        (f"CONSUMER.CREATE.{OWN.queue}", consumer),
        (f"CONSUMER.CREATE.{OWN.queue}.mine", consumer),
        (f"CONSUMER.DURABLE.CREATE.{OWN.queue}.mine", consumer),
        (f"CONSUMER.DELETE.{OWN.queue}.{PODS}", None),
        (f"CONSUMER.PAUSE.{OWN.queue}.{PODS}", {"pause_until": "2100-01-01T00:00:00Z"}),
        (f"STREAM.DELETE.{STRANGER.queue}", None),
        (f"STREAM.PURGE.{STRANGER.queue}", None),
    ]
    with running_nats_server(tmp_path) as engine:
        for streams in (OWN, STRANGER):
            await engine.make_environment(streams, LIMITS)
        stranger = await engine.pod(STRANGER)
        await stranger.jetstream().publish(STRANGER.event("orders", new_id()), b"one")
        await stranger.close()
        if restarted:
            engine.stop()
            engine.start()
        pod = Pod()
        await pod.connect(engine)
        for _ in range(2):
            await pod.client.jetstream().publish(OWN.event("orders", new_id()), b"one")
        pulled = await pod.client.jetstream().pull_subscribe_bind(consumer=PODS, stream=OWN.queue)
        assert len(await pulled.fetch(2, timeout=2)) == 2
        client = await engine.environment(OWN)
        before = await client.jetstream().consumer_info(OWN.queue, PODS)
        await client.close()
        accounts = ["", *map(engine.trust.environment_account, (OWN, STRANGER))]
        for prefix in ("$JS.API", MANAGEMENT_PREFIX):
            for account in accounts:
                for subject, body in attempts:
                    await _by_reply(pod, f"{prefix}.{subject}", body, account)
        await pod.client.flush()
        await asyncio.sleep(0.2)
        assert pod.refused == []
        await pod.client.close()
        client = await engine.environment(OWN)
        own = client.jetstream()
        assert {one.config.name for one in await own.streams_info()} == set(OWN.names)
        assert (await own.stream_info(OWN.runs)).config.max_bytes == LIMITS.runs_bytes
        consumers = {one.name: one for one in await own.consumers_info(OWN.queue)}
        assert set(consumers) == {PODS, f"{PODS}-high", f"{PODS}-low"}
        consumer_now = consumers[PODS]
        assert (consumer_now.name, consumer_now.paused) == (PODS, None)
        assert (consumer_now.delivered, consumer_now.num_ack_pending) == (before.delivered, 2)
        await client.close()
        client = await engine.environment(STRANGER)
        assert (await client.jetstream().stream_info(STRANGER.queue)).state.messages == 1
        await client.close()


async def test_streams_are_managed_by_a_backups_prefix_until_its_time_is_over(tmp_path: Path) -> None:
    with running_nats_server(tmp_path) as engine:
        await engine.make_environment(OWN, LIMITS)
        now = datetime.now(UTC)
        keys = EngineKeys(trust=engine.trust, encryption_key="", release="ours", created=now)
        access = BackupAccess(until=now + timedelta(hours=1))
        system = await engine.client(None, signer=engine.trust.system_users)
        await push_account(system, engine.trust.system_jwt(now, backup=access))
        backup = await engine.client(None, signer=engine.trust.users.of_environment(OWN))
        managing = backup.jetstream(prefix=access.prefix, timeout=2)
        await ensure_shared_accounts(system, keys, now)
        await managing.delete_stream(OWN.dead_letters)
        with pytest.raises(nats.js.errors.ServiceUnavailableError):
            await backup.jetstream(timeout=2).delete_stream(OWN.runs)
        await ensure_shared_accounts(system, keys, access.until)
        # JetStream's API does not answer at a subject that it has not.
        with pytest.raises(nats.errors.TimeoutError):
            await managing.delete_stream(OWN.runs)
        names = {one.config.name for one in await backup.jetstream().streams_info()}
        assert names == {*OWN.names} - {OWN.dead_letters}
        for client in (system, backup):
            await client.close()


async def test_an_environment_cannot_fill_the_volume(engine: NatsServer, pod: Pod) -> None:
    """Events that wait have no bound of their own in JetStream: the account's ends pods that do not keep to it."""
    small = replace(OWN, environment=new_id())
    limits = StreamLimits(
        queue_bytes=1 << 20, later_bytes=1 << 20, runs_bytes=1 << 20, dead_letters_bytes=1 << 20
    )
    await engine.make_environment(small, limits)
    client = await engine.pod(small)
    headers = {"Nats-Schedule": "@at 2100-01-01T00:00:00Z"}
    refused = ""
    for number in range(100):
        headers["Nats-Schedule-Target"] = small.due(f"run{number}")
        try:
            await client.jetstream().publish(small.waiting(f"run{number}"), bytes(1 << 18), headers=headers)
        except nats.js.errors.APIError as error:
            refused = f"{number} {error.description}"
            break
    assert refused.endswith("resource limits exceeded for account")
    assert int(refused.split()[0]) < 40
    await client.close()


async def test_the_api_signs_users_that_may_do_what_it_does_and_no_more(engine: NatsServer, pod: Pod) -> None:
    signer = AccountSigner(engine.trust.account.public_key, engine.trust.api, scoped=True)
    refused: list[str] = []

    async def noted(error: Exception) -> None:
        refused.append(str(error))

    client = await engine.client(
        None, signer=signer.of_environment(OWN), inbox_prefix=OWN.api_inbox, error_cb=noted
    )
    run = new_id()
    stored = await client.jetstream().publish(OWN.event("orders", run), b"one")
    assert await client.jetstream().delete_msg(OWN.queue, stored.seq)
    assert await client.jetstream().publish(OWN.answered(run), b"{}")
    assert await client.jetstream().publish(OWN.step(run, "fetch", 1), b"{}")
    assert await client.jetstream().publish(OWN.outcome(run, "wait"), b"{}")
    assert refused == []
    subjects = (
        f"$JS.API.STREAM.DELETE.{OWN.queue}",
        OWN.history,
        OWN.steps_claim(run),
        OWN.run_state(run),
        OWN.ended(run),
        OTHER.step(run, "fetch", 1),
        OWN.approval(run, run),
        OTHER.outcome(run, "wait"),
        OTHER.answered(run),
        OTHER.event(child_runs.ENDED_TASK, run),
    )
    for subject in subjects:
        with pytest.raises(nats.errors.TimeoutError):
            await client.request(subject, b"{}", timeout=0.3)
    assert len(refused) == len(subjects)
    await client.close()
    # Elsewhere the key signs nothing: neither the platform's account nor pods' rights.
    for elsewhere in (signer, AccountSigner(engine.trust.account.public_key, engine.trust.api)):
        with pytest.raises(nats.errors.Error):
            await engine.client(None, signer=elsewhere, allow_reconnect=False)
    unscoped = AccountSigner(engine.trust.account.public_key, engine.trust.api).of_environment(OWN)
    with pytest.raises(nats.errors.Error):
        await engine.client(None, signer=unscoped, allow_reconnect=False)


async def test_a_schedule_may_not_lead_to_another_environment(pod: Pod) -> None:
    at = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {"Nats-Schedule": f"@at {at}", "Nats-Schedule-Target": OTHER.due("run1")}
    with pytest.raises(nats.js.errors.BadRequestError, match="target is invalid"):
        await pod.client.jetstream().publish(OWN.waiting("evil"), b"evil", headers=headers)


async def test_an_expired_user_is_refused(engine: NatsServer, admin: Client) -> None:
    rights = Permissions(publish=OWN.pods_publish(), subscribe=OWN.pods_subscribe())
    signer = engine.trust.users.of_environment(OWN)
    past = datetime.now(UTC) - timedelta(seconds=5)
    with pytest.raises(nats.errors.Error):
        await engine.client(rights, signer=signer, expires=past, allow_reconnect=False)


async def test_a_user_whom_nobody_trusted_has_signed_is_refused(engine: NatsServer, admin: Client) -> None:
    stranger = replace(engine.trust, signer=KeyPair.generate(KeyKind.ACCOUNT))
    user = Credentials.parse(stranger.credentials("stranger", at=datetime.now(UTC)))
    with pytest.raises(nats.errors.Error):
        await engine.client(
            None, allow_reconnect=False, user_jwt_cb=user.user_jwt_cb, signature_cb=user.signature_cb
        )


async def test_another_users_token_is_worth_nothing_without_its_key(
    engine: NatsServer, admin: Client
) -> None:
    other = Credentials.parse(engine.trust.credentials("other", at=datetime.now(UTC)))
    with pytest.raises(nats.errors.Error):
        await engine.client(None, allow_reconnect=False, signature_cb=other.signature_cb)


async def test_pods_connect_with_a_credentials_file_until_it_expires(
    engine: NatsServer, admin: Client
) -> None:
    now = datetime.now(UTC)
    for seconds, accepted in ((60, True), (-5, False)):
        text = engine.trust.pod_credentials(OWN, at=now, expires=now + timedelta(seconds=seconds))
        user = Credentials.parse(text)
        connecting = engine.client(
            None,
            allow_reconnect=False,
            inbox_prefix=OWN.inbox,
            user_jwt_cb=user.user_jwt_cb,
            signature_cb=user.signature_cb,
        )
        if accepted:
            pod = await connecting
            await pod.jetstream().publish(OWN.event("orders", new_id()), b"one")
            await pod.close()
        else:
            with pytest.raises(nats.errors.Error):
                await connecting


async def test_what_is_stored_cannot_be_read_from_the_disk(engine: NatsServer, pod: Pod) -> None:
    await pod.client.jetstream().publish(OWN.event("orders", new_id()), b"a-secret-order-number")
    files = [path for path in (engine.folder / "data").rglob("*") if path.is_file()]
    assert any(path.suffix == ".blk" for path in files)
    assert [path for path in files if b"a-secret-order-number" in path.read_bytes()] == []
