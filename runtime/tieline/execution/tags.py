"""Tags that code gives its runs: business ids, by which people find them again."""

from contextvars import ContextVar

from tieline_protocol.run_tags import MAX_TAGS, MAX_VALUE, has_unseen, is_name

TagValue = str | int | bool
"""What ``ctx.tag`` takes."""

background_tags: ContextVar[dict[str, str] | None] = ContextVar("tieline_background_tags", default=None)
"""The tags of the background work that the current task or thread does, which is a run of its own."""


def add_tag(tags: dict[str, str], name: str, value: TagValue) -> None:
    """Add a tag to those of a run. Raises ValueError, which has nothing of the value: it may be a secret."""
    if not is_name(name):
        shown = repr(name[:50]) if isinstance(name, str) else f"a {type(name).__name__}"
        raise ValueError(
            "The name of a tag is a lower-case letter and up to 39 more lower-case letters, digits, '-' and '_', not "
            f"{shown}"
        )
    if not isinstance(value, str | int):
        raise ValueError(f"The value of the tag {name!r} is a text, an integer or a bool, not {_kind(value)}")
    text = str(value)
    if not 1 <= len(text) <= MAX_VALUE:
        raise ValueError(
            f"The value of the tag {name!r} has {len(text):,} characters; it may have 1 to {MAX_VALUE}"
        )
    if has_unseen(text):
        raise ValueError(f"The value of the tag {name!r} has control characters")
    if name not in tags and len(tags) >= MAX_TAGS:
        raise ValueError(
            f"A run has at most {MAX_TAGS} tags, so it gets no tag {name!r}; it has {', '.join(tags)}"
        )
    tags[name] = text


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
