"""What the pods run. Each effect is a line of the file in RECORD: one write each, so the lines are in their order."""

CODE = """
import asyncio, json, os, time
from tieline import Context, Event, Integration, Reject, Request, Retry

integration = Integration()
integration.waits_for("confirmed", match=["run"])
RECORD = os.open(os.environ["RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
QUICK = Retry(attempts=12, first=0.2, longest=1)
FEW = Retry(attempts=3, first=0.2)


def record(what, **told):
    line = {"at": time.monotonic(), "what": what, "pid": os.getpid(), **told}
    os.write(RECORD, (json.dumps(line) + "\\n").encode())


async def work(ctx, run, content, attempt):
    # The effects of an event: one outside of steps, some in steps, and a child.
    told = {"run": run, "number": content["number"]}
    record("begun", attempt=attempt, **told)
    for name in content.get("steps", ()):
        used = []

        async def effect():
            used.append(ctx.idempotency_key)
            record("effect", step=ctx.idempotency_key, **told)
            await asyncio.sleep(content.get("seconds", 0))
            return name

        await ctx.step(name, effect)
        if used:
            record("recorded", step=used[0], **told)
    if attempt <= content.get("failures", 0):
        raise RuntimeError("the other side is away")
    if sleep := content.get("sleep"):
        await ctx.sleep("cool off", sleep)
    if wait := content.get("wait"):
        confirming = await ctx.step("ask", ctx.publish, "confirmed", {"run": run}, delay=wait["delay"])
        confirmed = await ctx.wait_for("confirmed", match={"run": run}, timeout=wait["timeout"])
        record("waited", confirming=confirming, confirmed=confirmed is not None, patient=wait["patient"], **told)
    await asyncio.sleep(content.get("seconds", 0))
    if content.get("child"):
        child = await ctx.publish("child", {"number": content["number"]}, key=content.get("childKey"))
        if child is not None:
            record("published", child=child, **told)
    if content.get("reject"):
        raise Reject("nobody wants it")
    record("done", **told)


@integration.webhook("orders", delivery="queued", retry=QUICK)
async def orders(ctx: Context, request: Request) -> None:
    await work(ctx, ctx.execution_id, await request.json(), 99)


@integration.event("free", retry=QUICK)
async def free(ctx: Context, event: Event) -> None:
    await work(ctx, event.run_id, event.payload, event.attempt)


@integration.event("keyed", key="key", retry=QUICK)
async def keyed(ctx: Context, event: Event) -> None:
    await work(ctx, event.run_id, event.payload, event.attempt)


@integration.event("child", retry=QUICK)
async def child(ctx: Context, event: Event) -> None:
    await work(ctx, event.run_id, event.payload, event.attempt)


@integration.event("stubborn", key="key", retry=FEW)
async def stubborn(ctx: Context, event: Event) -> None:
    record("begun", run=event.run_id, number=event.payload["number"], attempt=event.attempt)
    raise ValueError("never")


@integration.webhook("publish")
async def publish(ctx: Context, request: Request) -> dict:
    asked = await request.json()
    return {"runId": await ctx.publish(asked["task"], asked["payload"], **asked["options"])}
"""
