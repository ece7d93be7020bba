"""Jobs of the limited process about a project's Python files: what they say, without running them.

A job is ``{"files": [[path, base64 of the content]]}``. Each file gets one answer: ``{"finding": [message, line] or
null, "templates": [[name, line]], "webhooks": [[name, methods, description, tool, input
schema or null]], "unseen": [[text, place]], "events":
[name] or null}``. There may be fewer answers than files: a job gives the process back after a while, and the caller
asks again for the files that are left.
"""

import base64
import time
from collections.abc import Iterator

import orjson

from tieline_core.connectors.webhooks import Webhook, declared_in
from tieline_protocol.code_checks import webhook_problem
from tieline_protocol.findings import Finding
from tieline_protocol.python_source import events_in, parse, templates_in

_TURN_SECONDS = 1.0


def answers(body: bytes) -> Iterator[bytes]:
    """The answers to a job."""
    began = time.process_time()
    for number, (path, content) in enumerate(orjson.loads(body)["files"]):
        if number and time.process_time() - began > _TURN_SECONDS:
            return
        yield orjson.dumps(_answer(path, base64.b64decode(content)))


def _answer(path: str, content: bytes) -> dict[str, object]:
    found = parse(path, content)
    if isinstance(found, Finding):
        return {
            "finding": [found.message, found.line],
            "templates": [],
            "webhooks": [],
            "unseen": [],
            "events": [],
        }
    templates: dict[str, int] = {}
    for name, line in templates_in(found):
        templates.setdefault(name, line)
    declared = list(declared_in(path, found))
    events = events_in(found)
    problem = webhook_problem(path, found)
    return {
        "finding": [problem.message, problem.line] if problem else None,
        "templates": list(templates.items()),
        "webhooks": [
            [item.name, item.methods, item.description, item.tool, item.input_schema]
            for item in declared
            if isinstance(item, Webhook)
        ],
        "events": None if events is None else sorted(events),
        "unseen": [[item.text, item.location] for item in declared if not isinstance(item, Webhook)],
    }
