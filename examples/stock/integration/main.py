"""Stock sync: what a supplier has in stock, kept in the shop.

Every five minutes the supplier is asked what has changed since the last time. It answers in pages, oldest change
first. After each page the place is remembered in ``ctx.state``: a pod that ends in the middle loses nothing, and
the next one goes on behind the last page.
"""

from tieline import Context, Integration, ScheduledRun

integration = Integration()

CURSOR = "changes"
PAGE = 50


@integration.schedule("stock", "*/5 * * * *", overlap="skip", timeout=240)
async def stock(ctx: Context, run: ScheduledRun) -> None:
    """All changes since the last run, page by page."""
    entry = await ctx.state.entry(CURSOR)
    cursor, version = entry.value or "", entry.version
    changes = 0
    while True:
        page = await ctx.fetch("supplier", "/changes", params={"after": cursor, "limit": PAGE})
        page.raise_for_status()
        body = await page.json()
        for change in body["changes"]:
            await put_into_shop(ctx, change)
        changes += len(body["changes"])
        if body["changes"]:
            cursor = body["next"]
            # Only if nobody else has moved it meanwhile: two that go on from one place would overtake each other.
            version = await ctx.state.set(CURSOR, cursor, version=version)
        if not body["more"]:
            break
    ctx.log.info("Brought the shop up to date", changes=changes, cursor=cursor, due=run.due.isoformat())


@integration.webhook("position", methods=["GET"])
async def position(ctx: Context) -> dict[str, str]:
    """GET /position: how far the sync is."""
    return {"cursor": await ctx.state.get(CURSOR, "")}


async def put_into_shop(ctx: Context, change: dict[str, object]) -> None:
    """The new quantity of a product. PUT: sent twice it is the same, so it may be sent again after a failure."""
    response = await ctx.fetch(
        "shop", f"/stock/{change['sku']}", method="PUT", json={"quantity": change["quantity"]}
    )
    response.raise_for_status()
