"""Messages: what comes in at a webhook is posted to a channel in Slack."""

from tieline import Context, Event, Integration, Reject, Request

integration = Integration()


@integration.webhook("messages", methods=["POST"], delivery="queued")
async def messages(ctx: Context, request: Request) -> None:
    """POST /messages: {channel, text}. It is stored before the caller gets 202."""
    message = await request.json()
    if not isinstance(message, dict) or not {"channel", "text"} <= message.keys():
        raise Reject("A message has a channel and a text")
    await ctx.publish("message.received", {"channel": message["channel"], "text": message["text"]})


@integration.event("message.received")
async def message_received(ctx: Context, event: Event) -> None:
    """Posts a message. Slack answers 200 also where it refuses, and says why in the body."""
    response = await ctx.fetch("slack", "/chat.postMessage", method="POST", json=event.payload)
    response.raise_for_status()
    answer = await response.json()
    if not answer.get("ok"):
        raise Reject(f"Slack refuses the message: {answer.get('error')}")
    ctx.log.info("Posted a message", channel=event.payload["channel"])
