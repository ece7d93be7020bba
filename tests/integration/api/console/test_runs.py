"""Runs: which failed, and why? And running them again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene, run_trace, span
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
HOSTILE = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


def test_a_list_of_runs_is_filtered_by_the_url_and_the_controls(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Filtered")
    scene.dead(project, message="the shop is closed")
    scene.runs(project, *(scene.succeeded(project, kind="webhook", task="orders") for _ in range(3)))
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.sees("4 runs")
    ann.toggles("Status", "dead", "failed")
    expect(ann.page).to_have_url(re.compile(r"status=failed%2Cdead"))
    ann.toggles("Status", "failed")
    expect(ann.page).to_have_url(re.compile(r"status=dead"))
    ann.sees("1 run, the newest first")
    ann.sees("503: the shop is closed")
    ann.finds_it_accessible()
    ann.open(f"/runs?project={project['id']}&kind=webhook")
    ann.sees("3 runs")
    ann.page.get_by_label("Search in errors").fill("no such error")
    ann.page.keyboard.press("Enter")
    ann.sees("No runs match these filters")
    ann.button("Clear the filters").click()
    expect(ann.page).to_have_url(re.compile(r"/runs$"))


def test_a_list_and_a_run_say_what_it_waits_for(person: Person_, admin: Client, scene: Scene) -> None:
    project, now = scene.project("Waiting"), time.time()
    throttled, queued = new_id(), new_id()
    scene.runs(
        project,
        record(
            throttled, "queued", 0, at=now, queued_at=now, next_attempt_at=now + 3600, waits_for="throttle"
        ),
        record(queued, "queued", 0, at=now, queued_at=now),
    )
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.sees("Waits for its turn")
    ann.sees("Waits for a pod with room for it")
    ann.finds_it_accessible()
    ann.open(f"/projects/{project['id']}/runs/{throttled}")
    ann.sees("Waits for")
    ann.sees("its turn")


def test_a_run_is_found_by_a_business_id_on_the_page_and_in_the_palette(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Orders by number")
    order = f"N-{new_id()}"
    run = scene.dead(project, tags={"order": order, "note": HOSTILE})
    retried = scene.dead(project, tags={"order": order})
    scene.dead(project)
    scene.runs(project, scene.succeeded(project, replay_of=retried))
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.sees("4 runs")
    ann.finds_it_accessible()
    rows = ann.region("Runs").locator("a.tr")
    expect(rows.filter(has_text="dead replayed")).to_have_count(1)
    expect(rows.filter(has_text=re.compile("succeeded replay(?!ed)"))).to_have_count(1)
    ann.page.get_by_label("Find by id").fill(order)
    ann.page.keyboard.press("Enter")
    ann.sees("2 runs")
    expect(ann.page).to_have_url(re.compile(f"find={order}"))
    ann.region("Runs").get_by_role("link", name="Runs with the tag note").click()
    ann.sees("1 run, the newest first")
    expect(ann.page).to_have_url(re.compile("tag=note%3A"))
    ann.page.get_by_role("button", name="Remove the filter tag note").click()
    ann.sees("2 runs")
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type(order)
    options = ann.page.get_by_role("dialog").get_by_role("option")
    expect(options.filter(has_text="All runs of")).to_be_visible()
    options.filter(has_text=run).click()
    expect(ann.page).to_have_url(re.compile(f"/projects/{project['id']}/runs/{run}$"))
    ann.region("About").get_by_role("link", name=f"Runs with the tag order: {order}").click()
    ann.sees("2 runs")
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type(run.lower())
    expect(options.filter(has_text=f"Run {run}")).to_be_visible()
    ann.open(f"/projects/{project['id']}/runs/{run}")
    ann.region("About").get_by_role("link", name="ann", exact=True).click()
    expect(ann.page).to_have_url(re.compile(r"/runs\?user=ann$"))


def test_a_failed_run_says_why_with_attempts_steps_input_answer_and_trace(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Why")
    run = scene.dead(project, message="the shop answered 503")
    scene.spans(project, run)
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.page.get_by_role("region", name="Runs").focus()
    ann.page.keyboard.press("j")
    ann.page.keyboard.press("Enter")
    expect(ann.page).to_have_url(re.compile(f"/projects/{project['id']}/runs/{run}$"))
    why = ann.region("Why it failed")
    expect(why).to_contain_text("the shop answered 503")
    expect(why).to_contain_text("The other system answered 503")
    expect(why).to_contain_text("closed for today")
    expect(ann.region("Attempts")).to_contain_text("3")
    expect(ann.region("Steps")).to_contain_text("fetch order")
    expect(ann.region("Input")).to_contain_text("1017")
    trace = ann.region("Trace")
    expect(trace.get_by_role("button")).to_have_count(4)
    trace.get_by_role("button", name="POST /orders").click()
    expect(trace).to_contain_text("503 Service Unavailable")
    ann.finds_it_accessible()


def test_a_dead_run_is_run_again_and_the_new_run_is_shown(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Again")
    run = scene.dead(project)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}/runs/{run}")
    ann.button("Replay…").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    ann.sees("Replay of")
    replayed = ann.page.url.rsplit("/", 1)[1]
    assert replayed != run
    assert admin.ok("GET", f"/projects/{project['id']}/runs/{replayed}")["replayOf"] == run


def test_a_run_is_replayed_from_one_of_its_steps(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("From a step")
    run = scene.dead(project)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}/runs/{run}")
    ann.button("Replay from here… fetch order").click()
    ann.finds_it_accessible()
    ann.page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    ann.sees("Replay of")
    replayed = ann.page.url.rsplit("/", 1)[1]
    assert admin.ok("GET", f"/projects/{project['id']}/runs/{replayed}")["replayOf"] == run


def test_a_payload_that_is_not_json_is_not_sent(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Wrong payload")
    run = scene.dead(project)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}/runs/{run}")
    ann.button("Replay…").click()
    ann.page.get_by_label("Payload").fill("{not json")
    ann.page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    expect(ann.page.get_by_role("alert")).to_contain_text("not valid JSON")
    assert len(admin.ok("GET", f"/projects/{project['id']}/runs")["items"]) == 1


def test_many_runs_are_counted_before_they_are_run_again(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Many")
    for _ in range(3):
        scene.dead(project)
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    expect(ann.button("Replay these…")).to_be_disabled()
    ann.toggles("Status", "dead")
    ann.button("Replay these…").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 runs match")
    assert len(admin.ok("GET", f"/projects/{project['id']}/runs")["items"]) == 3, "counting changes nothing"
    dialog.get_by_role("button", name="Replay 3").click()
    expect(ann.page.get_by_role("status").filter(has_text="3 runs")).to_be_visible()
    assert len(admin.ok("GET", f"/projects/{project['id']}/runs")["items"]) == 6


def test_runs_whose_boxes_are_checked_are_run_again_alone(
    person: Person_, admin: Client, scene: Scene
) -> None:
    projects = [scene.project(name) for name in ("Chosen here", "Chosen there")]
    here, there, left = (scene.dead(project) for project in (*projects, projects[0]))
    ann = person(admin)
    ann.open("/runs?status=dead")
    for run in (here, there, left):
        ann.page.get_by_role("checkbox", name=run).check()
    ann.page.get_by_role("checkbox", name=left).uncheck()
    ann.finds_it_accessible()
    ann.button("Replay 2 chosen…").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 runs match")
    dialog.get_by_role("button", name="Replay 2").click()
    expect(dialog).to_have_count(0)
    expect(ann.button("Replay these…")).to_be_disabled()
    replayed = [
        run["id"]
        for project in projects
        for run in admin.ok("GET", f"/projects/{project['id']}/runs?replayed=true")["items"]
    ]
    assert sorted(replayed) == sorted([here, there])


def test_a_range_of_time_is_chosen_and_kept_in_the_url(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Ranges")
    ages = (60, 7_200, 2 * 86_400)
    scene.runs(project, *(scene.succeeded(project, ago=age) for age in ages))
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.sees("3 runs, the newest first")
    time = ann.page.get_by_label("Time")
    for last, seen in (("1h", "1 run,"), ("1d", "2 runs,"), ("7d", "3 runs,")):
        time.select_option(last)
        ann.sees(seen)
        expect(ann.page).to_have_url(re.compile(f"last={last}"))
    ann.page.reload()
    expect(time).to_have_value("7d")
    time.select_option("custom")
    ann.sees("2 runs,")
    ann.page.get_by_label("To").fill("2026-01-01T10:00")
    ann.page.keyboard.press("Enter")
    ann.sees("No runs match these filters")
    expect(ann.page).to_have_url(re.compile("end=2026-01-01T09%3A00%3A00.000Z"))
    ann.page.get_by_label("From").fill("2025-01-01T10:00")
    ann.page.keyboard.press("Enter")
    expect(ann.page).to_have_url(re.compile("start=2025-01-01T09%3A00%3A00.000Z"))
    ann.finds_it_accessible()


def test_back_and_a_reload_keep_where_a_list_is_scrolled_to(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Long list")
    scene.runs(project, *(scene.succeeded(project, ago=number) for number in range(70)))
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    ann.sees("70 runs")
    runs = ann.region("Runs")
    runs.evaluate("one => one.scrollTo(0, 1000)")
    row = runs.locator("li[aria-posinset='35'] a.tr").first
    row.click()
    expect(ann.region("About")).to_be_visible()
    ann.main.evaluate("one => one.scrollTo(0, 200)")
    ann.page.go_back()
    expect(row).to_be_in_viewport()
    assert runs.evaluate("one => one.scrollTop") == 1000
    ann.page.reload()
    expect(row).to_be_in_viewport()
    row.click()
    expect(ann.region("About")).to_be_visible()
    assert ann.main.evaluate("one => one.scrollTop") == 0, "a page begins at its top"


def test_a_viewer_sees_runs_and_no_way_to_change_them(person: Person_, viewer: Client, scene: Scene) -> None:
    project = scene.project("Looked at")
    run = scene.dead(project)
    ann = person(viewer)
    ann.open(f"/projects/{project['id']}/runs/{run}")
    expect(ann.region("Why it failed")).to_be_visible()
    for name in ("Replay", "Cancel", "Discard"):
        ann.sees_no("button", name)
    ann.open(f"/runs?project={project['id']}&status=dead")
    expect(ann.page.get_by_role("link", name="order.created")).to_be_visible()
    for name in ("Replay", "Cancel"):
        ann.sees_no("button", name)
    ann.sees_no("checkbox", "Choose the run")


def test_what_others_wrote_is_shown_as_text(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project(HOSTILE[:60])
    run = scene.dead(project, message=HOSTILE)
    evil = span(9, run_trace(run), 1, HOSTILE, 1, 1, status={"code": 2, "message": HOSTILE})
    scene.spans(project, run, evil)
    ann = person(admin)
    expect(ann.region("Needs attention")).to_contain_text(HOSTILE)
    ann.open(f"/runs?project={project['id']}")
    expect(ann.region("Runs")).to_contain_text(HOSTILE)
    ann.open(f"/projects/{project['id']}/runs/{run}")
    expect(ann.region("Why it failed")).to_contain_text(HOSTILE)
    ann.region("Trace").get_by_role("button", name="failed: <img").click()
    ann.open(f"/projects/{project['id']}")
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(HOSTILE[:60])
    expect(ann.page.locator("img[onerror], main script")).to_have_count(0)


def test_in_a_small_window_the_error_stays_and_filters_stay_narrow(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project(f"A project whose name is {'very ' * 12}long")
    scene.dead(project, message="the shop is closed")
    ann = person(admin)
    ann.open(f"/runs?project={project['id']}")
    expect(ann.page.get_by_label("Project")).to_have_value(project["id"])
    assert ann.page.get_by_label("Project").evaluate("one => one.offsetWidth") <= 200
    ann.page.set_viewport_size({"width": 640, "height": 800})
    error = ann.main.get_by_text("503: the shop is closed")
    expect(error).to_be_in_viewport(ratio=1)
    assert error.evaluate("one => one.clientWidth") >= 150
    ann.finds_it_accessible()


def test_replay_is_offered_only_where_the_input_is_kept(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Not again")
    record = scene.succeeded(project, kind="schedule", task="nightly")
    again = scene.dead(project)
    scene.runs(project, record)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}/runs/{record.id}")
    expect(ann.region("About")).to_be_visible()
    ann.sees_no("button", "Replay…")
    ann.open(f"/projects/{project['id']}/runs/{again}")
    expect(ann.button("Replay…")).to_be_visible()
