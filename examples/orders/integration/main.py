"""What this integration does, in one sentence."""

from typing import Any

from tieline import Context, Event, Integration, Request, Retry

integration = Integration()


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    """Accepts an order: it is stored before the caller gets 202, and tried until the other side takes it."""
    order: dict[str, Any] = await request.json()
    await ctx.publish("order.received", order, key=str(order["customer"]))


@integration.event("order.received", retry=Retry(attempts=10))
async def order_received(ctx: Context, event: Event) -> None:
    """Sends an order to the system that `connections.yaml` and the platform call "shop"."""
    headers = {"Idempotency-Key": ctx.idempotency_key}
    response = await ctx.fetch("shop", "/orders", method="POST", json=event.payload, headers=headers)
    response.raise_for_status()
    ctx.log.info("Sent an order", customer=event.payload["customer"])
