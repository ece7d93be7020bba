"""Webhooks, signed by the Standard Webhooks specification (symmetric signatures, ``v1``).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable

import aiohttp
import orjson

from tieline_core.resources.notification_channels import WebhookChannel
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.http_post import post
from tieline_operator.reconcilers.notification.messages import Message

_PREFIX = "whsec_"


async def send(
    session: aiohttp.ClientSession,
    channel: WebhookChannel,
    secret: str,
    message: Message,
    *,
    clock: Callable[[], float] = time.time,
) -> None:
    """Posts a message. Raises DeliveryError."""
    body = orjson.dumps(message.payload())
    timestamp = str(int(clock()))
    headers = {
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(key_of(secret), message.id, timestamp, body),
    }
    await post(session, channel.url, body, headers)


def sign(key: bytes, identifier: str, timestamp: str, body: bytes) -> str:
    """The signature of a message: HMAC-SHA256 over id, timestamp and body, with the scheme's version."""
    signed = b".".join((identifier.encode(), timestamp.encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def key_of(secret: str) -> bytes:
    """The key in a signing secret. Raises DeliveryError where it is none."""
    encoded = secret.strip().removeprefix(_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise DeliveryError(
            "SecretInvalid",
            f"The signing secret is not {_PREFIX} followed by base64; replace it in the Secret",
        )
    return key
