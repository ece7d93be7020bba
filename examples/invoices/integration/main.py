"""Invoices: each order becomes an invoice in a billing system, whose API description is a connector of this code.

``tieline connectors add Billing`` wrote the two files in ``connectors/``. Editors and type checkers know what the
operations take and give, and a request that does not fit the description is not sent.
"""

from connectors.billing import Billing, Line

from tieline import Context, Integration, InvalidCallError, Reject, Request

integration = Integration()


@integration.webhook("orders", delivery="queued", key="number")
async def orders(ctx: Context, request: Request) -> None:
    """An order is stored before it is answered, and invoiced once, however often that is tried."""
    order = await request.json()
    lines: list[Line] = [
        {"sku": line["sku"], "quantity": line["quantity"], "cents": round(float(line["price"]) * 100)}
        for line in order["lines"]
    ]
    try:
        invoice = await Billing(ctx).create_invoice(
            {"order": order["number"], "customer": order["customer"], "lines": lines},
            idempotency_key=ctx.idempotency_key,
        )
    except InvalidCallError as error:
        raise Reject(str(error)) from None  # the next attempt would send the same
    ctx.log.info("Invoiced", order=order["number"], invoice=invoice["id"], cents=invoice["cents"])


@integration.webhook("open", methods=["GET"])
async def open_amount(ctx: Context) -> dict[str, object]:
    """GET /open: what customers have not paid yet, over all pages."""
    owed: dict[str, int] = {}
    async for invoice in Billing(ctx).list_invoices_pages(state="open", limit=100):
        owed[invoice["customer"]] = owed.get(invoice["customer"], 0) + invoice["cents"]
    return {"cents": sum(owed.values()), "customers": owed}


@integration.webhook("paid")
async def paid(ctx: Context, request: Request) -> dict[str, str]:
    """POST /paid: the bank tells of a payment. An operation can be called by its name, without its module."""
    number = (await request.json())["invoice"]
    invoice = await ctx.call("billing", "payInvoice", path={"id": number})
    return {"state": invoice["state"]}
