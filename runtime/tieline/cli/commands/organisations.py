"""``tieline org``."""

from tieline.cli.option_groups import Commands
from tieline.cli.options import OutputOption, Platform
from tieline.cli.remote.client import Json
from tieline.cli.terminal import Output, show, warn

organisation = Commands(no_args_is_help=True, help="Look at the organisation.")
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@organisation.command("quotas")
def list_quotas(*, platform: Platform, output: OutputOption = Output.TABLE) -> None:
    """List the organisation's quotas and what is used of them."""
    found: Json = platform.client().get("quotas")
    items: list[Json] = found["items"]
    show(
        output,
        items,
        ("quota", "used", "limit", "left"),
        lambda: [
            (item["name"], *(_amount(item.get(field), item["unit"]) for field in ("used", "limit", "left")))
            for item in items
        ],
        empty="There are no quotas.",
    )
    if problem := found.get("problem"):
        warn(problem)


def _amount(number: int | None, unit: str) -> str:
    """A number for people.

    >>> _amount(1610612736, "bytes"), _amount(3, "pods"), _amount(None, "pods")
    ('1.5 GiB', '3', '')
    """
    if number is None:
        return ""
    if unit == "bytes":
        for name, size in _SIZES:
            if number >= size:
                return f"{number / size:.4g} {name}"
    return str(number)
