"""Loyalty points: each customer's paid orders become points in that customer's own loyalty account.

One environment serves all customers. The storefront calls /paid/users/<customer> and signs the body; the
template ``storefront`` (static) has the key that it signs with, the template ``loyalty`` (dynamic) leads to
the account of the customer whom the run is for.
"""

from decimal import Decimal, InvalidOperation

from variables import Variables

from tieline import Context, Integration, Request, Response

integration = Integration()


@integration.webhook("paid", connection="storefront")
async def paid(ctx: Context[Variables], request: Request) -> Response | dict[str, object]:
    """POST /paid/users/<customer>: a paid order in, the new balance out."""
    customer = ctx.activation.user
    if customer is None:
        return Response(status=400, text="Call /paid/users/<customer>")
    order = await request.json()
    try:
        points = points_for(Decimal(str(order["total"])), rate=ctx.variables["pointsPerEuro"])
    except (KeyError, InvalidOperation):
        return Response(status=422, text="The order needs a total such as 19.90")

    # PUT under the order's number: sent twice, it counts once, so it may be sent again after a failure.
    response = await ctx.fetch(
        "loyalty", f"/credits/{order['number']}", method="PUT", json={"points": points}
    )
    response.raise_for_status()
    balance = (await response.json())["balance"]
    ctx.log.info("Credited points", customer=customer.external_id, points=points, balance=balance)
    return {"credited": points, "balance": balance}


def points_for(total: Decimal, *, rate: float) -> int:
    """Whole points for an amount; the fraction is lost, as in the programme's terms."""
    return int(total * Decimal(str(rate)))
