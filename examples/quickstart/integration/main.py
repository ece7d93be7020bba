"""Order sync: takes orders from a storefront and puts them into the shop."""

import json

from storefront import InvalidOrderError, to_shop_order

from tieline import Context, Integration, Request, Response

integration = Integration()


@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context, request: Request) -> Response:
    """POST /orders: one storefront order in, the shop's order id out."""
    try:
        order = to_shop_order(json.loads(await request.read()))
    except (InvalidOrderError, json.JSONDecodeError) as error:
        return _answer(422, {"error": str(error)})

    response = await ctx.fetch("shop", "/orders", method="POST", json=order)
    if response.status != 201:
        ctx.log.error("The shop refused an order", status=response.status, reference=order["reference"])
        return _answer(502, {"error": f"The shop answered {response.status}"})

    created = await response.json()
    ctx.log.info("Sent an order to the shop", reference=order["reference"], order_id=created["id"])
    return _answer(201, {"created": created["id"], "totalCents": created["totalCents"]})


def _answer(status: int, body: dict[str, object]) -> Response:
    return Response(status=status, text=json.dumps(body), content_type="application/json")
