"""E-mail by SMTP."""

import asyncio
import re
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib

from tieline_core.resources.notification_channels import EmailChannel, SmtpSecurity
from tieline_operator.notifications.errors import DeliveryError, PartlyDeliveredError
from tieline_operator.reconcilers.notification.messages import Message, Phase
from tieline_protocol.egress import Egress, EgressRefusedError

_CONNECT_SECONDS = 10.0
_COMMAND_SECONDS = 15.0
_TOTAL_SECONDS = 60.0
_QUIT_SECONDS = 5.0
_MAX_SHOWN = 3
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})(?=\s|$)")
"""RFC 3463: the status code that an answer begins with."""
_SUBJECTS = {
    "1": "an address is wrong",
    "2": "a mailbox takes no mail",
    "3": "the server, or the one behind it, has no room or does not take such mail",
    "4": "the mail cannot be routed",
    "5": "it does not speak SMTP as expected",
    "6": "the content cannot be converted",
    "7": "sender or content break its policy",
}
"""RFC 3463, 3: what the second number is about."""


async def send(
    egress: Egress,
    channel: EmailChannel,
    password: str | None,
    message: Message,
    *,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> None:
    """Sends a message to all recipients. Raises DeliveryError, and PartlyDeliveredError where only some get it.

    ``tls`` makes the context that checks certificates.
    """
    try:
        async with asyncio.timeout(_TOTAL_SECONDS):
            client, refused = await _send(egress, channel, password, message, tls)
    except EgressRefusedError as error:
        raise DeliveryError("AddressRefused", f"{channel.host} may not be reached: {error}") from None
    except aiosmtplib.SMTPAuthenticationError as error:
        raise DeliveryError(
            "AuthenticationFailed",
            f"{channel.host} refuses the user name or the password ({error.code}); correct them",
        ) from None
    except aiosmtplib.SMTPRecipientsRefused:
        raise DeliveryError("Refused", f"{channel.host} refuses all recipients; correct to") from None
    except aiosmtplib.SMTPResponseException as error:
        raise DeliveryError("Refused", _refusal(channel, error)) from None
    except ssl.SSLCertVerificationError:
        raise DeliveryError("CertificateRefused", _certificate_refused(channel)) from None
    except (TimeoutError, aiosmtplib.SMTPTimeoutError):
        raise DeliveryError(
            "TimedOut", f"{channel.host} did not answer in time; check host, port and security"
        ) from None
    except aiosmtplib.SMTPConnectError as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            raise DeliveryError("CertificateRefused", _certificate_refused(channel)) from None
        raise DeliveryError("Unreachable", _unreachable(channel)) from None
    except (aiosmtplib.SMTPException, OSError, ValueError):
        raise DeliveryError("Unreachable", _unreachable(channel)) from None
    # The server has accepted the mail. Whatever it does from here on, sending it again would repeat it.
    await _quit(client)
    if refused:
        raise PartlyDeliveredError("RecipientsRefused", _some_refused(channel, refused))


async def _send(
    egress: Egress,
    channel: EmailChannel,
    password: str | None,
    message: Message,
    tls: Callable[[], ssl.SSLContext],
) -> tuple[aiosmtplib.SMTP, Collection[str]]:
    """The connection, once the mail is accepted, and the recipients that are refused."""
    encrypted = channel.security is not SmtpSecurity.NONE
    async with asyncio.timeout(_CONNECT_SECONDS):
        connected = await egress.open_socket(channel.host, channel.effective_port)
    client = aiosmtplib.SMTP(
        hostname=channel.host,
        # Its transport owns the socket from here on.
        sock=connected,
        timeout=_COMMAND_SECONDS,
        # For EHLO: servers may refuse a name that is no domain.
        local_hostname=channel.from_.rpartition("@")[2],
        use_tls=channel.security is SmtpSecurity.TLS,
        start_tls=channel.security is SmtpSecurity.STARTTLS,
        tls_context=tls() if encrypted else None,
        username=channel.username,
        password=password,
    )
    try:
        await client.connect()
        refused, _ = await client.send_message(email_of(channel, message))
    except BaseException:
        client.close()
        raise
    return client, refused


async def _quit(client: aiosmtplib.SMTP) -> None:
    try:
        with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
            async with asyncio.timeout(_QUIT_SECONDS):
                await client.quit()
    finally:
        client.close()


def email_of(channel: EmailChannel, message: Message) -> EmailMessage:
    """The e-mail. Both messages of an incident are one thread."""
    domain = channel.from_.rpartition("@")[2]
    email = EmailMessage()
    email["Subject"] = message.title
    email["From"] = channel.from_
    email["To"] = ", ".join(channel.to)
    email["Date"] = format_datetime(datetime.now(UTC))
    email["Message-ID"] = f"<{message.id}@{domain}>"
    if message.phase is Phase.RESOLVED:
        email["In-Reply-To"] = email["References"] = f"<{message.thread}@{domain}>"
    # RFC 3834: nobody answers it automatically.
    email["Auto-Submitted"] = "auto-generated"
    email.set_content(message.text)
    return email


def _refusal(channel: EmailChannel, error: aiosmtplib.SMTPResponseException) -> str:
    """What the codes of an answer say. Its text may repeat what was sent, or hold control characters."""
    found = _ENHANCED.match(error.message)
    if found is None:
        return f"{channel.host} answered {error.code}; its log says why"
    meaning = _SUBJECTS.get(found[1].split(".")[1], "the reason is another one")
    return f"{channel.host} answered {error.code} {found[1]}: {meaning}; its log says more"


def _some_refused(channel: EmailChannel, refused: Collection[str]) -> str:
    shown = ", ".join(sorted(refused)[:_MAX_SHOWN])
    return f"{channel.host} refuses {len(refused)} of {len(channel.to)} recipients ({shown}); correct to"


def _unreachable(channel: EmailChannel) -> str:
    return (
        f"{channel.host} cannot be spoken with on port {channel.effective_port}; check host, port and security "
        f"({channel.security})"
    )


def _certificate_refused(channel: EmailChannel) -> str:
    return f"The certificate of {channel.host} is not trusted, or is for another name; correct host, or the server"
