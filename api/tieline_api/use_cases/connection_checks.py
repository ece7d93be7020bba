"""Tests of connections: by the check request of the system, or by a request that the caller names."""

from contextlib import suppress
from dataclasses import dataclass

from tieline_api import errors
from tieline_api.cluster import revisions
from tieline_api.connection_requests.client import SystemRequest
from tieline_api.connection_requests.forwarding import checked_path, sent_headers, shown_text
from tieline_api.credentials.outcome_reports import RequestOutcome, Verdict
from tieline_api.credentials.tokens_in_use import ConnectionTokens
from tieline_api.http.operation import AnyCall
from tieline_api.schemas import connections as rest
from tieline_api.use_cases.connection_calls import SILENT, send_through
from tieline_core.credentials.refusals import REFUSALS
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.resources import CONNECTIONS
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import ConnectionObject, SystemObject
from tieline_core.resources.systems import ConnectionCheck
from tieline_core.systems import checked_variables, variables_in_effect
from tieline_protocol.oauth.kept import NOTHING, Kept
from tieline_protocol.url_inputs import UrlInputError, filled_path

TEST_SECONDS = 15.0
UNAUTHORISED = 401
_BUSY = 429
_REFUSED = (
    "it refuses the credentials, or they may not do this. Check them, or test with a path that they may read"
)
_UNEXPECTED = (
    "the check of the system expects another status. Verify the credentials, the base URL, and the path"
)


def check_of(system: SystemObject | None) -> ConnectionCheck | None:
    """The check request of a System; None where it names none."""
    found = system["spec"].get("check") if system else None
    return ConnectionCheck.model_validate(found) if found else None


def check_path(
    check: ConnectionCheck, connection: ObjectView, system: ObjectView, kept: Kept = NOTHING
) -> str:
    """The path of a check request with the values of both specs. Raises UrlInputError.

    >>> check = ConnectionCheck(path="/v3/company/{realm}")
    >>> check_path(check, {"variables": {"realm": "46208"}}, {})
    '/v3/company/46208'
    """
    values = variables_in_effect(connection, system, kept)
    return filled_path(check.path, values, checked_variables(system, kept))


async def run_test(
    call: AnyCall, obj: ConnectionObject, body: rest.ConnectionTest
) -> rest.ConnectionTestResult:
    """Sends the request of the body, or the system's check where the body names none, and records what came of it.

    Raises ApiError 429 where too many requests are under way.
    """
    found = ConnectionTokens(call.platform.cluster, obj)
    check = check_of(found.system) if body.method is None and body.path is None else None
    try:
        path = check_path(check, obj["spec"], found.system_spec, found.kept) if check else ""
    except UrlInputError as error:
        return rest.ConnectionTestResult(
            ok=False, message=f"The path of the system's check cannot be made: {error}"
        )
    sent = ((check.body if check else None) or "").encode()
    request = SystemRequest(
        method=check.method if check else body.method or "GET",
        path=checked_path(path if check else body.path or ""),
        headers=sent_headers({"Content-Type": "application/json"} if sent else {}, ()),
        body=sent,
        seconds=TEST_SECONDS,
        follows=True,
        # Without a text to look for, the status says it all.
        reads=bool(check and check.expect.contains),
    )
    try:
        answer = await send_through(call, obj, request, records=False)
    except errors.ApiError as error:
        if error.status == _BUSY:
            raise
        return rest.ConnectionTestResult(ok=False, message=error.message)
    said = await shown_text(answer.body, answer.headers.get("Content-Type", ""), answer.redact)
    status = answer.meant
    names_path = bool(body.path)
    judgement = (
        judge_check(check, status, answer.body) if check else judge_test(status, names_path=names_path)
    )
    if judgement.verdict is not None:
        outcome = RequestOutcome(status=status, verdict=judgement.verdict, said=said)
        with suppress(KubeError):  # the caller learns the result all the same, and pods report it, too
            known = await call.platform.outcomes.answered(obj, outcome, at_once=True)
            if known is not obj:  # who asks another replica for the state names what was written
                revisions.wrote(CONNECTIONS.plural, known)
    return rest.ConnectionTestResult(
        ok=judgement.ok,
        status=answer.status,
        message=f"The system answered {answer.status}: {judgement.meaning}",
        said=said if said and not judgement.ok else None,
    )


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an answer to a test says."""

    ok: bool
    verdict: Verdict | None
    """None where it says nothing about the credentials."""
    meaning: str
    """What to do, for people."""


def judge_check(check: ConnectionCheck, status: int, body: bytes) -> Judgement:
    """What an answer to a system's check request says.

    >>> judge_check(ConnectionCheck(path="/me"), 401, b"").verdict
    <Verdict.REFUSED: 'refused'>
    """
    if status >= 500 or status in SILENT:
        return _unclear(status)
    expect = check.expect
    if status not in (expect.statuses or range(200, 300)):
        meaning = _REFUSED if status in REFUSALS else _UNEXPECTED
        return Judgement(ok=False, verdict=Verdict.REFUSED, meaning=meaning)
    if expect.contains and expect.contains.encode() not in body:
        return Judgement(
            ok=False,
            verdict=Verdict.REFUSED,
            meaning="the answer lacks the text that the system's check expects. Check the credentials",
        )
    return Judgement(ok=True, verdict=Verdict.SUCCEEDED, meaning="it accepts the credentials")


def judge_test(status: int, *, names_path: bool) -> Judgement:
    """What an answer to a request that the caller chose says.

    >>> judge_test(200, names_path=True).verdict, judge_test(403, names_path=True).verdict
    (<Verdict.SUCCEEDED: 'succeeded'>, None)
    """
    if status in REFUSALS:
        # With 403 a system may forbid this one path.
        verdict = Verdict.REFUSED if status == UNAUTHORISED else None
        return Judgement(ok=False, verdict=verdict, meaning=_REFUSED)
    if status >= 500:
        return _unclear(status)
    if status in SILENT:
        return Judgement(
            ok=True,
            verdict=None,
            meaning="it did not refuse the credentials, and asks for fewer requests",
        )
    if status >= 400:
        meaning = (
            "it was reached and did not refuse the credentials, but it does not serve this request. "
            "Test with a path that needs them"
        )
        return Judgement(ok=True, verdict=Verdict.ACCEPTED, meaning=meaning)
    # A base URL may answer everybody: only a path that the caller has chosen shows that the credentials work.
    verdict = Verdict.SUCCEEDED if names_path else Verdict.ACCEPTED
    meaning = "it was reached, and did not refuse the credentials"
    if status >= 300:
        meaning = "it was reached and redirects. Test with the path that it redirects to"
    return Judgement(ok=True, verdict=verdict, meaning=meaning)


def _unclear(status: int) -> Judgement:
    meaning = "it has an error of its own, so nothing is known of the credentials. Try again later"
    if status < 500:
        meaning = "it asks for fewer requests, so nothing is known of the credentials. Try again later"
    return Judgement(ok=False, verdict=None, meaning=meaning)
