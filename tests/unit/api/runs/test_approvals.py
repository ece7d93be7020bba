"""Lists of approvals over environments of which some have many, and some do not answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.runs.approvals import ApprovalRef, Approvals, shared_newest
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams


def _refs(environment: str, count: int) -> list[ApprovalRef]:
    return [ApprovalRef(id=new_id(), environment=environment, is_answered=False) for _ in range(count)]


def _counts(refs: Sequence[ApprovalRef]) -> dict[str, int]:
    return {name: sum(ref.environment == name for ref in refs) for name in "abc"}


def test_an_environment_with_many_displaces_no_others() -> None:
    refs = {"b": _refs("b", 3), "c": _refs("c", 5), "a": _refs("a", 100)}
    chosen = shared_newest(refs, 20)
    assert _counts(chosen) == {"a": 12, "b": 3, "c": 5}
    assert chosen == sorted(chosen, key=lambda ref: ref.id, reverse=True)
    newest = sorted((ref.id for ref in refs["a"]), reverse=True)[:12]
    assert [ref.id for ref in chosen if ref.environment == "a"] == newest
    assert _counts(shared_newest({name: _refs(name, 9) for name in "abc"}, 10)) in (
        {"a": 3, "b": 3, "c": 4},
        {"a": 3, "b": 4, "c": 3},
        {"a": 4, "b": 3, "c": 3},
    )
    assert shared_newest({}, 10) == []


class _Engines:
    """Environments of which each has one approval, no stream, or does not answer."""

    def of(self, streams: EventStreams) -> Any:
        class Engine:
            async def subjects(self, stream: str, subjects: str) -> list[str]:
                if streams.environment == "away":
                    raise EngineUnavailableError
                if streams.environment == "none":
                    raise NoStreamError
                return [streams.approval(new_id(), "run")] if subjects == streams.approval("*", "*") else []

        return Engine()


async def test_environments_that_do_not_answer_are_named_beside_the_others() -> None:
    approvals = Approvals(_Engines())  # type: ignore[arg-type]
    found = await approvals.refs("acme", ["live", "away", "none"], lambda ref: True)
    assert [ref.environment for ref in found.refs] == ["live"]
    assert found.unread == ["away"]
    assert found.left_out == 0
    assert not (await approvals.refs("acme", ["live"], lambda ref: ref.is_answered)).refs


async def test_a_list_fails_if_no_environment_answers() -> None:
    with pytest.raises(EngineUnavailableError):
        await Approvals(_Engines()).refs("acme", ["away"], lambda ref: True)  # type: ignore[arg-type]
