"""Who is the member that has connected the club? The access token is refreshed where the code does not see it."""

from tieline import Context, Integration

integration = Integration()


@integration.webhook("me", methods=["GET"])
async def me(ctx: Context) -> dict[str, str]:
    """The member's own record."""
    response = await ctx.fetch("club", "/me")
    response.raise_for_status()
    member = await response.json()
    ctx.log.info("Read the member's record", number=member["number"])
    return {"hello": member["name"], "number": member["number"]}
