"""A connection in words: its state, what expires, and what uses it."""

from collections.abc import Iterable

from rich.text import Text

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote.client import Client, Json
from tieline.cli.terminal import age, note, styled


def refused(found: Json) -> str | None:
    """That the system refuses requests, for people."""
    refusal = found.get("refused")
    if not refusal:
        return None
    said = f": {refusal['said']}" if refusal.get("said") else ""
    return f"{refusal['count']}+ requests with {refusal['status']} since {refusal['since']}{said}"


def last_refusal(found: Json) -> str | None:
    """The last refusal of a connection that is accepted again, for people."""
    last = found.get("lastRefusal")
    if not last or found.get("refused"):
        return None
    said = f": {last['said']}" if last.get("said") else ""
    return f"{ago(last['lastAt'])} with {last['status']}{said}"


def check_answer(answer: Json) -> Json:
    """The answer to a test request."""
    return {
        "status": answer.get("status"),
        "message": answer.get("message"),
        "answer": answer.get("said"),
    }


def expires(items: Iterable[Json]) -> str:
    """What expires and when, for people."""
    return ", ".join(f"{item['what']} {_until(item['at'])}" for item in items)


def _until(time: str) -> str:
    """How far away a time is.

    >>> _until("2000-01-01T00:00:00Z").startswith("expired")
    True
    """
    text = age(time)
    return text if text.startswith("in ") else f"expired {text} ago"


def secrets(found: Json) -> str | None:
    """Secrets with the values that are managed elsewhere, for people; None for none."""
    managed = [(item.get("credential") or {}).get("secret") for item in found["credentials"]]
    shown = [f"Secret {one['name']}, {_manager(one)}" for one in managed if one]
    return "; ".join(shown) or None


def _manager(secret: Json) -> str:
    return f"managed by {secret['managedBy']}" if secret.get("managedBy") else "which does not exist"


def uses(remote: Client, found: Json) -> str | None:
    """What uses a connection, for people; None where that cannot be read, or may not be."""
    try:
        found_uses = remote.get(f"connections/{found['id']}/uses")
    except CommandError as error:
        if error.code not in (ExitCode.NOT_SIGNED_IN, ExitCode.NOT_FOUND):
            note(f"Cannot read what uses it: {error}")
        return None
    places = [
        f"{one['projectName']} {one['environmentName']} as {one['name']}" for one in found_uses["templates"]
    ]
    more = found_uses["templateCount"] - len(found_uses["templates"])
    parts = [*places, *([f"{more} more"] if more else [])]
    if found_uses["activationCount"]:
        parts.append(f"{found_uses['activationCount']} activations")
    return ", ".join(parts) or "nothing"


def variables(found: Json) -> str | None:
    """The values in the URLs, for people; None for none."""
    return ", ".join(f"{one['name']}={one['value']}" for one in found.get("variables") or ()) or None


def state(found: Json) -> Text:
    """Whether it works, for people."""
    return styled(str(found.get("state", "")).replace("_", " "))


def ago(time: str | None) -> str | None:
    """How long ago a time was; None for none."""
    return f"{age(time)} ago" if time else None


def agents_may(found: Json) -> str | None:
    """What agents may call, for people; None for nothing."""
    tools = found.get("tools") or {}
    read = ["call operations with GET and HEAD"] if tools.get("read") else []
    names = [f"call {', '.join(tools['operations'])}"] if tools.get("operations") else []
    return "; ".join([*read, *names]) or None


def credential_types(connection: Json) -> list[str]:
    """The type of each credential."""
    return [(item.get("credential") or {}).get("type") or "none" for item in connection["credentials"]]


def credential_errors(connection: Json) -> list[str]:
    """What is wrong with the credentials."""
    return [
        error
        for item in connection["credentials"]
        for error in (item.get("credential") or {}).get("errors") or ()
    ]
