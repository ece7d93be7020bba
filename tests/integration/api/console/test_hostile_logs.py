"""What a real pod prints, with all of its tricks, as the console shows it: text, on lines of its own, and nothing runs.

That nothing runs, that nothing outside is loaded and that the policy is not breached is asserted at the end of each
test (``tests/harness/console/watching.py``).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.harness.cluster.deployed_platform import RESTRICTED
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.hostile import ANSI, BIDI, LINK, MARKUP, PROTOTYPE, TEMPLATE
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
DEEP = "[" * 400 + "]" * 400
MEGABYTE = 1_000_000
LAST = "the last line"


def _record(message: str, **more: Any) -> bytes:
    return json.dumps({"message": message, **more}).encode()


LINES = [
    MARKUP.encode(),
    ANSI.encode(),
    BIDI.encode(),
    bytes(range(1, 10)) + bytes(range(11, 32)) + b"\x7f after",
    b"\xff\xfe\xc0\xaf not UTF-8 \xed\xa0\x80",
    "C1 \x9b31m\x85\u2028\u2029 end".encode(),
    _record(f"as JSON {MARKUP}", severity=MARKUP, timestamp=LINK, error=f"{ANSI}{BIDI}", executionId=MARKUP),
    _record(
        "fields",
        fields={PROTOTYPE: {"polluted": MARKUP}, MARKUP: LINK, "constructor": TEMPLATE, "bidi": BIDI},
    ),
    b'{"message": "deep", "fields": {"x": ' + DEEP.encode() + b"}}",
    _record("request", httpRequest={"url": LINK, "method": MARKUP}),
    b'{"message": {"html": "<b onclick=__pwned()>"}}',
    b"2026-11-25T00:00:00.000000000Z a time of its own",
    b"",
]
# Kubernetes cuts what has more than 16 KiB into pieces.
LONG = f"print('W' * {MEGABYTE} + 'end of the long one', flush=True)"


@pytest.fixture(scope="module")
def printed(scene: Scene, admin: Client, runtime_image: str) -> dict[str, Any]:
    """A project with a pod that has printed all of it."""
    project = scene.project("Prints")
    scene.environment_is(project, status="running")
    content = base64.b64encode(b"\n".join(LINES) + b"\n").decode()
    program = (
        f"import base64, sys, time\n"
        f"sys.stdout.buffer.write(base64.b64decode('{content}'))\nsys.stdout.flush()\n{LONG}\n"
        f"print('{LAST}', flush=True)\ntime.sleep(3600)\n"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "prints", "labels": {ENVIRONMENT_ID_LABEL: project["environments"][0]["id"]}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "runtime",
                    "image": runtime_image,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "-c", program],
                    "securityContext": RESTRICTED,
                }
            ],
        },
    }
    scene.kubectl("apply", "-f", "-", stdin=json.dumps(pod), namespace=scene.organisation.namespace)

    def all_lines() -> bool:
        found = admin.ok("GET", f"/projects/{project['id']}/logs?search={quote(LAST)}")["logs"]
        return any(line["message"] == LAST for line in found)

    eventually("the last line", all_lines, within=120)
    return project


def test_lines_of_a_pod_are_shown_as_text(person: Person_, admin: Client, printed: dict[str, Any]) -> None:
    ann = person(admin)
    ann.open(f"/logs?project={printed['id']}&environment=production")
    lines = ann.region("Log lines")
    expect(lines).to_contain_text(LAST)
    expect(lines).to_contain_text("<script>__pwned('script')</script>")
    expect(lines).to_contain_text("‹U+202E›")
    shown = lines.inner_text()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown), (
        "seen, or gone"
    )
    made = lines.locator("img, svg, script, b, a, style, iframe, link")
    expect(made).to_have_count(0)
    assert ann.page.evaluate("({}).polluted === undefined")
    assert ann.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    ann.finds_it_accessible()


@pytest.mark.parametrize("search", ["<script>", "\u202e", "__proto__", "W" * 100])
def test_what_is_searched_for_in_them_is_text_too(
    person: Person_, admin: Client, printed: dict[str, Any], search: str
) -> None:
    ann = person(admin)
    ann.open(f"/logs?project={printed['id']}&environment=production&search={quote(search)}")
    expect(ann.region("Log lines").locator(".log-line").first).to_be_visible()
    expect(ann.region("Log lines").locator("img, script")).to_have_count(0)


def test_a_line_of_a_megabyte_leaves_the_page_usable(
    person: Person_, admin: Client, printed: dict[str, Any]
) -> None:
    ann = person(admin)
    ann.open(f"/logs?project={printed['id']}&environment=production")
    lines = ann.region("Log lines")
    expect(lines).to_contain_text(LAST)
    longest = lines.locator(".log-line").evaluate_all(
        "all => Math.max(...all.map((each) => each.textContent.length))"
    )
    assert longest < 10_000
    more = lines.get_by_role("button", name="more characters")
    expect(more.first).to_be_visible()
    ann.finds_it_accessible()
    ann.button("Pause").click()
    expect(ann.button("Go on")).to_be_visible()
