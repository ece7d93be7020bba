"""Takes orders from a storefront and puts them into the shop."""

from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context, request: Request) -> dict[str, str]:
    """POST /orders: one order in, the shop's order id out."""
    order = await request.json()
    response = await ctx.fetch(
        "shop", "/orders", method="POST", json={**order, "channel": ctx.variables["channel"]}
    )
    response.raise_for_status()
    return {"created": (await response.json())["id"]}
