"""Tests of integrations: the project's real code on the real runtime, with fakes in the place of external systems.

    def test_an_order_is_sent_to_the_shop(tieline_project: Project) -> None:
        shop = tieline_project.connection("shop")
        shop.on("POST", "/orders").answer(201, json={"id": "7"})
        answer = tieline_project.post("/orders", json={"number": "S-1"})
        assert answer.json() == {"created": "7"}
        assert shop.requests[0].json() == {"reference": "S-1"}

The fixture ``tieline_project`` comes with the package; see docs/sdk/testing.md.
"""

from tieline.events.asked_approval import AskedApproval
from tieline.events.local_answers import ApprovalRefusedError
from tieline.testing.answer import Answer
from tieline.testing.described import AnswerNotDescribedError
from tieline.testing.emulated_provider import EmulatedProvider
from tieline.testing.event_attempt import DeadLetter, EventAttempt
from tieline.testing.fake_connections import FakeConnection, Script, SeenRequest, UnexpectedRequestError
from tieline.testing.log_capture import LogEntry
from tieline.testing.project import Project, RunFailedError
from tieline.testing.tagged_runs import TaggedRun

__all__ = [
    "Answer",
    "AnswerNotDescribedError",
    "ApprovalRefusedError",
    "AskedApproval",
    "DeadLetter",
    "EmulatedProvider",
    "EventAttempt",
    "FakeConnection",
    "LogEntry",
    "Project",
    "RunFailedError",
    "Script",
    "SeenRequest",
    "TaggedRun",
    "UnexpectedRequestError",
]
