"""What a project's code registers, as lines for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from tieline.cli.inspect_code import LoadedCode


def task_lines(loaded: LoadedCode, url: str = "") -> Iterator[str]:
    """A line for each webhook, event, awaited event and schedule; webhooks are served under ``url``."""
    for webhook in loaded.webhooks:
        yield f"  {','.join(webhook['methods']):<8} {url}/{webhook['name']}{_notes(webhook)}"
    for event in loaded.events:
        cancelled = f", cancelled by {event['cancelOn']}" if event["cancelOn"] else ""
        paced = f"{_debounced(event['debounce'])}{_throttled(event['throttle'])}{_batched(event['batch'])}"
        urgency = _urgent(event["priority"])
        yield f"  {'event':<8} {event['name']}, {_terms(event)}{cancelled}{paced}{urgency}"
    for wait in (one for one in loaded.waits if not one["cancels"]):
        fields = f", by {' and '.join(wait['match'])}" if wait["match"] else ""
        yield f"  {'waits':<8} {wait['name']}{fields}"
    for schedule in loaded.schedules:
        yield f"  {schedule['cron']:<8} {schedule['name']}, next at {schedule['next']}"


def _notes(webhook: Mapping[str, Any]) -> str:
    notes = []
    if webhook["delivery"] == "queued":
        notes.append(f"queued, {_terms(webhook)}")
    if webhook["connection"]:
        exempt = "".join(f", except for {method}" for method in webhook["unauthenticated"])
        notes.append(f"callers show the credential of {webhook['connection']}{exempt}")
    return f"  ({'; '.join(notes)})" if notes else ""


def _debounced(rule: Mapping[str, Any] | None) -> str:
    if rule is None:
        return ""
    key = f" by {rule['key']}" if rule["key"] else ""
    timeout = f", at most {rule['timeout']:g} s" if rule["timeout"] else ""
    return f", debounced{key} for {rule['period']:g} s{timeout}"


def _throttled(rule: Mapping[str, Any] | None) -> str:
    if rule is None:
        return ""
    key = f" for each {rule['key']}" if rule["key"] else ""
    return f", at most {rule['limit']} in {rule['per']:g} s{key}"


def _batched(rule: Mapping[str, Any] | None) -> str:
    if rule is None:
        return ""
    key = f" by {rule['key']}" if rule["key"] else ""
    return f", in batches{key} of at most {rule['size']} in {rule['seconds']:g} s"


def _urgent(priority: int) -> str:
    return f", priority {priority}" if priority else ""


def _terms(task: Mapping[str, Any]) -> str:
    order = f"in order by {task['key']}, " if task["key"] else ""
    return f"{order}{task['attempts']} attempt{'' if task['attempts'] == 1 else 's'}"
