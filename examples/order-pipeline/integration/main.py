"""Order pipeline: a storefront's orders are reserved, booked in the ERP and confirmed, each exactly once.

    orders (signed webhook, stored) -> order.created (in order by customer) -> order.booked -> storefront

The storefront gets 202 once its order is stored. From then on the ERP may be away, pods may die and new versions may
be deployed: the order is tried again for five and a half hours, and what cannot be booked is a dead letter.
"""

from typing import Any

from tieline import Context, Event, Integration, Reject, Request

integration = Integration()


@integration.webhook("orders", connection="storefront", delivery="queued", key="customer")
async def orders(ctx: Context, request: Request) -> None:
    """POST /orders: {number, customer, lines: [{sku, quantity}]}, signed by the storefront."""
    order = await request.json()
    if not isinstance(order, dict) or not {"number", "customer", "lines"} <= order.keys():
        raise Reject("An order has a number, a customer and lines")
    tag(ctx, order)
    await ctx.publish("order.created", order)


@integration.event("order.created", key="customer")
async def order_created(ctx: Context, event: Event) -> None:
    """Reserves and books an order. What the ERP refuses gives its stock back, and is a dead letter."""
    order = event.payload
    tag(ctx, order)
    await ctx.step("reserve stock", reserve, ctx, order)
    try:
        booking = await ctx.step("book", book, ctx, order)
    except Reject:
        await ctx.step("release stock", release, ctx, order)
        await ctx.publish("order.refused", {"number": order["number"]})
        raise
    ctx.log.info("Booked an order", number=order["number"], booking=booking)
    await ctx.publish("order.booked", {"number": order["number"], "booking": booking})


# Without a key: a storefront that is away must not hold up the customer's next order.
@integration.event("order.booked")
async def order_booked(ctx: Context, event: Event) -> None:
    """Tells the storefront what became of an order."""
    ctx.tag("order", event.payload["number"])
    await tell(ctx, event.payload["number"], {"status": "booked", "booking": event.payload["booking"]})


@integration.event("order.refused")
async def order_refused(ctx: Context, event: Event) -> None:
    """Tells the storefront that an order was refused."""
    ctx.tag("order", event.payload["number"])
    await tell(ctx, event.payload["number"], {"status": "refused"})


def tag(ctx: Context, order: dict[str, Any]) -> None:
    """By these people find the run: tieline runs list --tag order=N-1101."""
    ctx.tag("order", order["number"])
    ctx.tag("customer", order["customer"])


async def reserve(ctx: Context, order: dict[str, Any]) -> None:
    """PUT: done twice it is the same."""
    lines = {"lines": order["lines"]}
    response = await ctx.fetch("erp", f"/reservations/{order['number']}", method="PUT", json=lines)
    response.raise_for_status()


async def release(ctx: Context, order: dict[str, Any]) -> None:
    """DELETE: done twice it is the same."""
    response = await ctx.fetch("erp", f"/reservations/{order['number']}", method="DELETE")
    response.raise_for_status()


async def book(ctx: Context, order: dict[str, Any]) -> str:
    """The ERP's number of the order.

    A POST is not the same when it is done twice, so the ERP gets a key. It is the order's number, and not
    ``ctx.idempotency_key``: the storefront may send an order again days later, and that is another run.
    """
    headers = {"Idempotency-Key": f"order-{order['number']}"}
    response = await ctx.fetch("erp", "/orders", method="POST", json=order, headers=headers)
    if response.status == 422:
        raise Reject(f"The ERP refuses the order: {(await response.text())[:200]}")
    response.raise_for_status()
    return str((await response.json())["booking"])


async def tell(ctx: Context, number: str, status: dict[str, str]) -> None:
    """PUT, signed with the key that the storefront signs its orders with."""
    response = await ctx.fetch("storefront", f"/orders/{number}/status", method="PUT", json=status)
    response.raise_for_status()
