"""E-mail against a real SMTP server (aiosmtpd), with STARTTLS, TLS and a password."""

from __future__ import annotations

import asyncio
import email
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.header import decode_header, make_header
from email.message import Message as Received
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from pydantic import ValidationError

from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.processes.ports import free_port
from tests.unit.operator.notifications.messages_made import PLACE, message
from tieline_core.identity.display_names import unreadable
from tieline_core.resources.notification_channels import EmailChannel
from tieline_operator.notifications import smtp
from tieline_operator.notifications.errors import DeliveryError, PartlyDeliveredError
from tieline_operator.reconcilers.notification.messages import Phase
from tieline_protocol.egress import PUBLIC_ONLY, Egress

LOOPBACK = Egress.parse(allowed=["127.0.0.0/8", "::1/128"])
PASSWORD = "pa-55-word"


class Mailbox:
    def __init__(self) -> None:
        self.received: list[tuple[Envelope, Received]] = []
        self.answer = "250 OK"
        self.refused: set[str] = set()
        self.delay = 0.0

    async def handle_RCPT(  # noqa: N802  (aiosmtpd's name)
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        await asyncio.sleep(self.delay)
        content = envelope.content
        assert isinstance(content, bytes)
        self.received.append((envelope, email.message_from_bytes(content)))
        return self.answer


def authenticator(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
    assert isinstance(data, LoginPassword)
    success = (data.login, data.password) == (b"tieline", PASSWORD.encode())
    return AuthResult(success=success, handled=success)


@contextmanager
def server(mailbox: Mailbox, **options: Any) -> Iterator[int]:
    made = Controller(mailbox, hostname="127.0.0.1", port=0, **options)
    # Controller.start checks by connecting, which needs the port that it got.
    made.port = free_port()
    made.start()
    try:
        yield made.port
    finally:
        made.stop()


def channel(port: int, **more: Any) -> EmailChannel:
    return EmailChannel.model_validate(
        {
            "host": "127.0.0.1",
            "port": port,
            "security": "none",
            "from": "tieline@acme.example",
            "to": ["ops@acme.example", "dev@acme.example"],
            **more,
        }
    )


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def tls_options(security: str, authority: Authority, folder: Path) -> dict[str, Any]:
    certificate, key = authority.issue("127.0.0.1")
    (folder / "chain.pem").write_text(certificate + pem(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain.pem")
    if security == "tls":
        # aiosmtpd counts as encrypted only what STARTTLS has made so.
        return {"ssl_context": context, "auth_require_tls": False}
    return {"tls_context": context, "require_starttls": True}


async def test_all_recipients_get_one_mail(mailbox: Mailbox) -> None:
    with server(mailbox) as port:
        await smtp.send(LOOPBACK, channel(port), None, message())
    ((envelope, mail),) = mailbox.received
    assert envelope.rcpt_tos == ["ops@acme.example", "dev@acme.example"]
    assert mail["Subject"] == "Deploy failed: Order sync / production"
    assert mail["Message-ID"] == f"<{message().id}@acme.example>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "Next: Correct what the message names" in mail.get_payload()


async def test_the_end_is_in_the_thread_of_the_beginning(mailbox: Mailbox) -> None:
    with server(mailbox) as port:
        for phase in (Phase.STARTED, Phase.RESOLVED):
            await smtp.send(LOOPBACK, channel(port), None, message(phase))
    (_, first), (_, second) = mailbox.received
    assert second["In-Reply-To"] == second["References"] == first["Message-ID"] != second["Message-ID"]


async def test_a_name_with_line_breaks_makes_no_header(mailbox: Mailbox) -> None:
    hostile = replace(PLACE, project_title="x\r\nBcc: all@acme.example\n")
    with server(mailbox) as port:
        await smtp.send(LOOPBACK, channel(port), None, message(place=hostile))
    ((envelope, mail),) = mailbox.received
    assert mail["Bcc"] is None
    assert len(envelope.rcpt_tos) == 2


async def test_a_server_that_refuses_is_a_failure(mailbox: Mailbox) -> None:
    mailbox.answer = "554 5.7.1 no spam"
    with server(mailbox) as port, pytest.raises(DeliveryError) as caught:
        await smtp.send(LOOPBACK, channel(port), None, message())
    assert caught.value.reason == "Refused"
    assert "answered 554 5.7.1: sender or content break its policy" in caught.value.message


@pytest.mark.parametrize(
    "answer",
    [
        f"550 you sent {PASSWORD}",
        f"550 5.7.1 you sent {PASSWORD}",
        f"550 {PASSWORD} 5.7.1",
        f"451 4.7.1{PASSWORD}",
        f"550 5.9999.1 {PASSWORD}",
        f"550 \x1b[31m{PASSWORD}",
    ],
)
async def test_what_a_server_says_is_not_repeated(mailbox: Mailbox, answer: str) -> None:
    """A status and a log are read by more people than the server's answer is for."""
    mailbox.answer = answer
    with server(mailbox) as port, pytest.raises(DeliveryError) as caught:
        await smtp.send(LOOPBACK, channel(port), None, message())
    assert caught.value.reason == "Refused"
    assert PASSWORD not in caught.value.message
    assert caught.value.message.isprintable()
    assert answer[:3] in caught.value.message


@pytest.mark.parametrize(
    "address",
    [
        "ops\r\nBcc:all@acme.example", "ops\x00@acme.example", "ops\x1b[31m@acme.example", "\u202eops@acme.example",
        "ops\u200e@acme.example", '"ops"@acme.example', "ops(all)@acme.example", "ops\\@acme.example",
        "=?utf-8?q?a=0d=0aBcc=3A_all?=@acme.example", "ops@acme.example\n", "ops@acme\u200e.example", "@acme.example",
    ],
)  # fmt: skip
def test_addresses_hold_nothing_that_hides_or_begins_a_header(address: str) -> None:
    for field in ({"from": address}, {"to": [address]}):
        with pytest.raises(ValidationError):
            channel(25, **field)
    channel(25, **{"from": "tie.line+o'neill_!#$%&*/=^`{|}~-@acme.example"})


async def test_a_name_that_hides_or_turns_text_is_shown_without_that(mailbox: Mailbox) -> None:
    hostile = replace(PLACE, project_title="\u202eorder\x1b[31m\x00 sync\u2028Bcc: x", environment="prod\x85")
    with server(mailbox) as port:
        await smtp.send(
            LOOPBACK, channel(port), None, message(place=hostile, detail="It failed:\x1b]0;title\x07\u2066")
        )
    ((_, mail),) = mailbox.received
    subject, body = str(make_header(decode_header(mail["Subject"]))), mail.get_payload(decode=True)
    assert subject == "Deploy failed: order [31m sync Bcc: x / prod"
    assert isinstance(body, bytes)
    text = body.decode()
    assert all(unreadable(line) is None for line in text.replace("\r\n", "\n").split("\n"))
    assert mail["Bcc"] is None
    assert "It failed: ]0;title" in text


async def test_recipients_that_are_all_refused_are_a_failure(mailbox: Mailbox) -> None:
    mailbox.refused = {"ops@acme.example", "dev@acme.example"}
    with server(mailbox) as port, pytest.raises(DeliveryError) as caught:
        await smtp.send(LOOPBACK, channel(port), None, message())
    assert caught.value.reason == "Refused"


async def test_one_refused_recipient_is_told_and_the_others_get_one_mail(mailbox: Mailbox) -> None:
    mailbox.refused = {"dev@acme.example"}
    with server(mailbox) as port, pytest.raises(PartlyDeliveredError) as caught:
        await smtp.send(LOOPBACK, channel(port), None, message())
    ((envelope, _),) = mailbox.received
    assert envelope.rcpt_tos == ["ops@acme.example"]
    assert caught.value.reason == "RecipientsRefused"
    assert "refuses 1 of 2 recipients (dev@acme.example)" in caught.value.message


@pytest.mark.parametrize("how", ["reset", "stall", "error"])
async def test_a_mail_that_was_accepted_is_delivered_however_the_server_takes_leave(
    mailbox: Mailbox, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be sent again and again."""
    monkeypatch.setattr(smtp, "_TOTAL_SECONDS", 1.5)
    monkeypatch.setattr(smtp, "_QUIT_SECONDS", 0.1)
    accepted: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            if line.upper().startswith(b"DATA"):
                writer.write(b"354 go on\r\n")
                accepted.append(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(b"250 accepted\r\n")
                if how == "reset":
                    await writer.drain()
                    writer.transport.abort()
                    return
            elif line.upper().startswith(b"QUIT"):
                if how == "error":
                    writer.write(b"500 never\r\n")
            else:
                writer.write(b"250 ok\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        await smtp.send(LOOPBACK, channel(port), None, message())
    assert len(accepted) == 1


async def test_a_slow_server_is_given_up(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox.delay = 0.6
    monkeypatch.setattr(smtp, "_TOTAL_SECONDS", 0.3)
    with server(mailbox) as port, pytest.raises(DeliveryError) as caught:
        await smtp.send(LOOPBACK, channel(port), None, message())
    assert caught.value.reason == "TimedOut"


async def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(DeliveryError) as caught:
        await smtp.send(LOOPBACK, channel(free_port()), None, message())
    assert caught.value.reason == "Unreachable"


async def test_a_server_within_the_cluster_is_refused(mailbox: Mailbox) -> None:
    with server(mailbox) as port, pytest.raises(DeliveryError) as caught:
        await smtp.send(PUBLIC_ONLY, channel(port), None, message())
    assert caught.value.reason == "AddressRefused"
    assert mailbox.received == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_the_connection_is_encrypted_before_the_password(
    security: str, mailbox: Mailbox, authority: Authority, tmp_path: Path
) -> None:
    options = tls_options(security, authority, tmp_path)
    trusted = partial(ssl.create_default_context, cadata=authority.ca)
    login = {"username": "tieline", "secretRef": {"name": "smtp"}, "security": security}
    with server(mailbox, authenticator=authenticator, auth_required=True, **options) as port:
        await smtp.send(LOOPBACK, channel(port, **login), PASSWORD, message(), tls=trusted)
        with pytest.raises(DeliveryError) as wrong:
            await smtp.send(LOOPBACK, channel(port, **login), "wrong-one", message(), tls=trusted)
        with pytest.raises(DeliveryError) as untrusted:
            await smtp.send(LOOPBACK, channel(port, **login), PASSWORD, message())
    assert len(mailbox.received) == 1
    assert wrong.value.reason == "AuthenticationFailed"
    assert "wrong-one" not in wrong.value.message
    assert untrusted.value.reason == "CertificateRefused"


async def test_a_server_without_starttls_gets_no_password(mailbox: Mailbox) -> None:
    login = {"username": "tieline", "secretRef": {"name": "smtp"}, "security": "starttls"}
    with server(mailbox) as port, pytest.raises(DeliveryError):
        await smtp.send(LOOPBACK, channel(port, **login), PASSWORD, message())
    assert mailbox.received == []
