"""What agents get of an HTTP answer: data, as text of bounded size."""

from typing import Any

MAX_BODY = 32 * 1024
"""Bytes of an answer that an agent gets: within its result, even where JSON doubles them."""
_TEXTS = ("text/", "application/xml", "application/javascript", "application/x-www-form-urlencoded")


def shown(status: int, content_type: str, body: bytes) -> dict[str, Any]:
    """An answer as data: its status, and its body where that is text. Secrets must be masked in ``body`` before."""
    kind = content_type.partition(";")[0].strip().lower()
    content: dict[str, Any] = {"status": status, "contentType": kind}
    if not body:
        return content
    if not (kind.startswith(_TEXTS) or kind.endswith(("/json", "+json", "+xml")) or not kind):
        return {**content, "note": f"The body, {len(body)} bytes, is no text and was left out"}
    text = body[:MAX_BODY].decode("utf-8", "replace")
    if len(body) > MAX_BODY:
        content["note"] = f"The body has {len(body)} bytes; these are the first {MAX_BODY}. Ask for less"
    return {**content, "body": text}
