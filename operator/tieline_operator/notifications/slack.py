"""Slack's incoming webhooks. The URL is the secret."""

import aiohttp
import orjson

from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.http_post import post
from tieline_operator.reconcilers.notification.messages import Message, Phase

_ICONS = {
    Phase.STARTED: "\N{LARGE RED CIRCLE}",
    Phase.RESOLVED: "\N{LARGE GREEN CIRCLE}",
    Phase.HAPPENED: "\N{LARGE BLUE CIRCLE}",
}
_MAX_TEXT = 3000


async def send(session: aiohttp.ClientSession, url: str, message: Message) -> None:
    """Posts a message. Raises DeliveryError."""
    if not url.startswith(("https://", "http://")):
        raise DeliveryError(
            "UrlWrong", "The key url of the Secret is no URL; put the incoming webhook's URL there"
        )
    await post(session, url, orjson.dumps(payload(message)), {})


def payload(message: Message) -> dict[str, object]:
    """The body: ``text``, which every client shows, and which cannot be too long for a block. Nothing of it is markup:
    names and errors are not ours, and nothing is shown of the pages and images that they link to."""
    title, _, rest = message.text.partition("\n")
    text = f"{_ICONS[message.phase]} {_escaped(title)}\n{_escaped(rest.strip())}"
    return {
        "text": text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…",
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _escaped(text: str) -> str:
    """Text that mentions nobody and links nowhere: Slack reads ``<!channel>`` and the like."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
