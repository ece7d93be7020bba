"""What refuses a deploy, as one table: the operator, the API and ``tieline check`` must all say this."""

from dataclasses import dataclass, field

GOOD = b"""\
from tieline import Integration

integration = Integration()


@integration.webhook("ping")
def ping() -> str:
    return "pong"
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files, and where and how they are refused; without words they are not."""

    name: str
    files: dict[str, bytes]
    place: tuple[str | None, int | None] = (None, None)
    words: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    templates: frozenset[str] = frozenset({"shop"})

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


CASES = (
    Case(name="sound files", files={"main.py": GOOD, "shop/orders.py": b"", "data.json": b"{"}),
    Case(name="no main.py", files={"other.py": GOOD}, words=("there is no main.py",)),
    Case(
        name="code that does not parse",
        files={"main.py": GOOD, "shop.py": b"x = 1\ndef f(:\n"},
        place=("shop.py", 2),
        words=("Python cannot read this", "invalid syntax"),
    ),
    Case(
        name="required packages without a version",
        files={"main.py": GOOD, "requirements.txt": b"# ours\nrequests"},
        place=("requirements.txt", 2),
        words=("requests has no exact version", "tieline lock"),
    ),
    Case(
        name="required packages in a folder",
        files={"main.py": GOOD, "shop/requirements.txt": b""},
        place=("shop/requirements.txt", None),
        words=("beside main.py alone",),
    ),
    Case(
        name="a template that is not there",
        files={"main.py": GOOD + b'\nasync def f(ctx):\n    await ctx.fetch("shopp")\n'},
        place=("main.py", 11),
        words=('"shopp"', "create a ConnectionTemplate"),
    ),
    Case(
        name="webhooks that match the same path",
        files={
            "main.py": GOOD.replace(b'"ping"', b'"ping/{x}"')
            + b"""
@integration.webhook("ping/{y}", methods=["GET"])
def other() -> None: ...
"""
        },
        place=("main.py", 10),
        words=("The webhooks 'ping/{y}' and 'ping/{x}' both match /ping/x", "give one another name"),
    ),
    Case(
        name="webhooks of one function that match the same path",
        files={
            "main.py": GOOD.replace(
                b'webhook("ping")', b'webhook("ping/{x}")\n@integration.webhook("ping/{y}")'
            )
        },
        place=("main.py", 6),
        words=("The webhooks 'ping/{x}' and 'ping/{y}' both match /ping/x",),
    ),
    Case(
        name="webhooks of two integrations that match the same path",
        files={
            "main.py": GOOD
            + b"""
second = Integration()
second.webhook("ping/users/{x}"[:4])
second.webhook(name="ping")(ping)
"""
        },
        place=("main.py", 12),
        words=("Two integrations of main.py have a webhook 'ping'",),
    ),
    Case(
        name="a name that no webhook can have",
        files={"main.py": GOOD.replace(b'"ping"', b'"/ping"')},
        place=("main.py", 6),
        words=("The webhook name '/ping' must be 1 to 100 letters",),
    ),
    Case(
        name="names of which only loading the code tells",
        files={
            "main.py": GOOD
            + b"""
if not integration:
    @integration.webhook("ping")
    def never() -> None: ...
""",
            "unused.py": GOOD.replace(b'"ping"', b'"/ping"'),
        },
    ),
    Case(
        name="a file that is too large",
        files={"main.py": GOOD, "large.bin": bytes(1024 * 1024 + 1)},
        place=("large.bin", None),
        words=("1,048,577 bytes",),
    ),
    Case(
        name="files that are too large together",
        files={"main.py": GOOD, **{f"{n}.bin": bytes(1024 * 1024) for n in range(8)}},
        words=("8.0 MiB together",),
    ),
    Case(
        name="a label key that is none",
        files={"main.py": GOOD},
        labels={"9lives": "cat"},
        words=('"9lives"', "start with a letter"),
    ),
)

# Names that no folder can hold: only a manifest or a request can.
UNSAVED = (
    Case(
        name="a name of a file and a folder",
        files={"main.py": GOOD, "shop": b"", "shop/orders.py": b""},
        place=("shop", None),
        words=("file and of a folder",),
    ),
    Case(
        name="a part of a path that is too long",
        files={"main.py": GOOD, "x" * 256: b""},
        place=("x" * 256, None),
        words=("more than 255 bytes",),
    ),
    Case(
        name="a path that leaves the project",
        files={"main.py": GOOD, "../main.py": b""},
        place=("../main.py", None),
        words=('".."',),
    ),
    Case(
        name="an absolute path",
        files={"main.py": GOOD, "/etc/passwd": b""},
        place=("/etc/passwd", None),
        words=("absolute",),
    ),
    Case(
        name="a path with a backslash",
        files={"main.py": GOOD, "a\\b.py": b""},
        place=("a\\b.py", None),
        words=("backslash",),
    ),
)
