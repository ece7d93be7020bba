"""Runs that ask people: each approval has one outcome, by somebody who may, and the run's record says whose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline.events.run_approvals import Question, RunApprovals
from tieline.testing import ApprovalRefusedError, AskedApproval, Project

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import Context, Event, Integration, Retry, SyncContext

integration = Integration()
done = []
FORM = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 500}}, "required": ["amount"]}


@integration.event("refund.requested", retry=Retry(attempts=3, first=60))
async def refund_requested(ctx: Context, event: Event) -> None:
    options = {"timeout": timedelta(days=1), **event.payload.get("options", {})}
    answer = await ctx.approve(f"Refund {event.payload['amount']} EUR?", details=event.payload, **options)
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the bank is away")
    done.append((answer.approved, answer.timed_out, answer.by, answer.comment, dict(answer.values)))


@integration.event("plain.requested", key="customer")
def plain_requested(ctx: SyncContext, event: Event) -> None:
    answer = ctx.approve("Go on?", timeout=60)
    done.append(bool(answer))


@integration.event("both.requested")
async def both_requested(ctx: Context, event: Event) -> None:
    answers = await ctx.gather(*(ctx.approve("Sign", details=one, timeout=600) for one in ("a", "b")))
    done.append([answer.by for answer in answers])
"""
CONNECTIONS = """
connections:
  bank:
    baseUrl: https://bank.example
    credentials: [{type: api-key, authScheme: {type: api-key, in: header, name: X}, data: {value: s3cr3t-of-bank}}]
"""
Loaded = Callable[[], Project]


@pytest.fixture
def project(load_project: Callable[[str, str], Project]) -> Project:
    return load_project(HEAD, CONNECTIONS)


def asked(project: Project, **payload: Any) -> AskedApproval:
    project.publish("refund.requested", {"amount": 480, **payload})
    project.run_events()
    return project.approvals[-1]


def test_a_run_goes_on_with_the_answer(project: Project) -> None:
    approval = asked(project)
    assert (approval.title, approval.details, approval.state) == (
        "Refund 480 EUR?",
        {"amount": 480},
        "open",
    )
    assert (project.module.done, project.waiting_events) == ([], 1)
    project.advance(timedelta(hours=20))
    project.answer(approval, approved=True, by="ann", comment="fine")
    (run,) = project.run_events()
    assert (run.run_id, run.status) == (approval.run_id, "succeeded")
    assert project.module.done == [(True, False, "ann", "fine", {})]
    assert (project.approvals[0].state, project.waiting_events) == ("approved", 0)


def test_the_record_of_the_run_says_who_has_answered(project: Project) -> None:
    approval = asked(project)
    records = project._queue.history
    (step,) = records[-1].steps
    assert step.approval is not None
    assert (step.name, step.approval.id, step.approval.state) == (
        "approve: Refund 480 EUR?",
        approval.id,
        "open",
    )
    project.answer(approval, approved=False, by="ann", comment="see s3cr3t-of-bank")
    project.run_events()
    (step,) = records[-1].steps
    assert step.approval is not None
    assert (step.approval.state, step.approval.by, step.approval.comment) == ("rejected", "ann", "see ***")
    assert step.approval.at


def test_the_first_answer_counts(project: Project) -> None:
    approval = asked(project)
    project.answer(approval, approved=False, by="ann")
    with pytest.raises(ApprovalRefusedError, match="ann has rejected it at 20"):
        project.answer(approval, approved=True, by="bob")
    project.run_events()
    assert project.module.done == [(False, False, "ann", "", {})]


def test_an_approval_that_nobody_answers_times_out_for_good(project: Project) -> None:
    approval = asked(project, fails=True)
    project.advance(timedelta(days=1, seconds=2))
    with pytest.raises(ApprovalRefusedError, match="in time"):
        project.answer(approval, approved=True)
    project.advance(timedelta(minutes=5))
    assert project.module.done == [(False, True, None, "", {})]
    assert project.approvals[0].state == "timed_out"


def test_a_retry_gets_the_same_answer_and_asks_nobody_again(project: Project) -> None:
    approval = asked(project, fails=True)
    project.answer(approval, approved=True, by="ann")
    project.run_events()
    assert project.module.done == []
    project.advance(timedelta(minutes=5))
    assert project.module.done == [(True, False, "ann", "", {})]
    assert len(project.approvals) == 1


def test_secrets_in_details_and_title_are_masked(project: Project) -> None:
    approval = asked(project, amount="s3cr3t-of-bank", s3cr3t="x", deep=[{"k": "a s3cr3t-of-bank b"}])
    assert approval.title == "Refund *** EUR?"
    assert approval.details == {"amount": "***", "s3cr3t": "x", "deep": [{"k": "a *** b"}]}


@pytest.mark.parametrize(
    ("by", "person", "may"),
    [
        (None, {"role": "tieline-viewer"}, False),
        (None, {"role": None}, False),
        (None, {"role": "tieline-admin"}, True),
        (["role:tieline-editor"], {"role": "tieline-viewer"}, False),
        (["role:tieline-admin"], {"role": "tieline-editor"}, False),
        (["role:tieline-viewer"], {"role": "tieline-editor"}, True),
        (["user:ann"], {"by": "ann", "role": None}, True),
        (["user:ann"], {"by": "bob", "role": "tieline-admin"}, False),
        (["group:finance"], {"groups": ["finance"], "role": None}, True),
        (["group:finance", "user:x"], {"groups": ["sales"]}, False),
    ],
)
def test_nobody_answers_what_they_may_not(
    project: Project, by: list[str] | None, person: dict[str, Any], may: bool
) -> None:
    approval = asked(project, options={"by": by})
    if may:
        project.answer(approval, approved=True, **person)
        project.run_events()
        assert project.module.done[0][0] is True
    else:
        with pytest.raises(ApprovalRefusedError, match="You may not answer"):
            project.answer(approval, approved=True, **person)


def test_who_asked_may_not_answer(project: Project) -> None:
    approval = asked(project, options={"other_than": "ann"})
    with pytest.raises(ApprovalRefusedError, match="Somebody else"):
        project.answer(approval, approved=True, by="ann")
    project.answer(approval, approved=True, by="bob")


def test_an_approval_has_the_values_of_its_form_and_a_rejection_needs_none(project: Project) -> None:
    form = project.module.FORM
    approval = asked(project, options={"form": form})
    for values in (None, {"amount": 501}, {"amount": "x"}):
        with pytest.raises(ApprovalRefusedError, match="do not follow the form"):
            project.answer(approval, approved=True, values=values)
    project.answer(approval, approved=True, values={"amount": 100})
    project.answer(asked(project, options={"form": form}), approved=False, by="ann")
    project.run_events()
    assert [one[4] for one in project.module.done] == [{"amount": 100}, {}]


def test_a_plain_function_with_a_key_waits_as_well(project: Project) -> None:
    for _ in range(2):
        project.publish("plain.requested", {"customer": "ann"})
    project.run_events()
    (first,) = project.approvals
    project.answer(first, approved=True)
    project.run_events()
    assert len(project.approvals) == 2
    project.advance(61)
    assert project.module.done == [True, False]


def test_approvals_side_by_side_are_told_apart(project: Project) -> None:
    project.publish("both.requested", {})
    project.run_events()
    for approval in reversed(project.approvals):
        project.answer(approval, approved=True, by=f"signer of {approval.details}")
        project.run_events()
    assert project.module.done == [["signer of a", "signer of b"]]


def test_waits_for_nothing_where_the_run_is_not_tried_again(
    load_project: Callable[[str, str], Project],
) -> None:
    code = (
        "from tieline import Integration\nintegration = Integration()\n\n\n"
        "@integration.webhook('w')\nasync def w(ctx, request):\n    await ctx.approve('x', timeout=1)\n"
    )
    project = load_project(code, "connections: {}")
    assert project.post("/w").status == 500
    assert any("Steps, sleep and waits" in (one.error or "") for one in project.logs)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"title": ""}, "title"),
        ({"title": "x" * 151}, "150"),
        ({"timeout": 0}, "30 days"),
        ({"timeout": timedelta(days=31)}, "30 days"),
        ({"details": "x" * 17000}, "bytes"),
        ({"details": nested(51)}, "50 levels"),
        ({"details": nested(100_000)}, "50 levels"),
        ({"by": ["ann"]}, "role:tieline-viewer"),
        ({"by": ["role:owner"]}, "role:tieline-viewer"),
        ({"by": ["user:x"] * 21}, "at most 20"),
        ({"form": {"type": "string"}}, "form"),
        ({"form": {"type": "object", "properties": {"a": {"pattern": "("}}}}, "form"),
        ({"other_than": ""}, "other_than"),
        ({"other_than": ["ann"]}, "other_than"),
        ({"other_than": "ann\ud800"}, "other_than"),
        ({"by": ["user:ann\ud800"]}, "role:tieline-viewer"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: dict[str, Any], error: str) -> None:
    given = {"details": None, "by": None, "timeout": 60, "form": None, "other_than": None, **change}
    title = given.pop("title", "Refund?")
    with pytest.raises(ValueError, match=error):
        Question.of(title, **given)


def test_details_of_fifty_levels_are_shown() -> None:
    question = Question.of("Refund?", details=nested(50), by=None, timeout=60, form=None, other_than=None)
    assert question.details == nested(50)


def test_numbers_that_readers_cannot_hold_are_shown_as_text() -> None:
    given = {"by": None, "timeout": 60, "form": None, "other_than": None}
    question = Question.of("Refund?", details={"id": 10**23, "amount": 480}, **given)  # type: ignore[arg-type]
    assert question.details == {"id": str(10**23), "amount": 480}


async def test_a_form_with_a_secret_is_refused() -> None:
    form = {"type": "object", "properties": {"key": {"type": "string", "default": "s3cret"}}}
    question = Question.of("Refund?", details=None, by=None, timeout=60, form=form, other_than=None)
    approvals = RunApprovals(
        None, run="r", task="t", user=None, mask=lambda text: text.replace("s3cret", "***")
    )  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="secret"):
        await approvals.approve(question, None)  # type: ignore[arg-type]


def test_a_single_text_is_no_list_of_approvers() -> None:
    with pytest.raises(TypeError, match="list"):
        Question.of("Refund?", details=None, by="user:ann", timeout=60, form=None, other_than=None)
