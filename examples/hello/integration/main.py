"""Hello: reads JSON from a webhook and answers."""

from tieline import Context, Integration, Request, Response

integration = Integration()


@integration.webhook("hello", methods=["POST"])
async def hello(ctx: Context, request: Request) -> Response | dict[str, str]:
    """POST /hello: {"name": "Ann"} in, a greeting out."""
    body = await request.json()
    name = body.get("name") if isinstance(body, dict) else None
    if not isinstance(name, str) or not name.strip():
        return Response(status=422, text='Send a name, such as {"name": "Ann"}')
    ctx.log.info("Greeted somebody", name=name)
    return {"message": f"Hello, {name.strip()}!"}
