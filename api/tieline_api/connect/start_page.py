"""``/oauth2/start``: the first hop of an end user's authorisation, which ties it to the user's browser.

A page posts the user's token and the state of an authorisation that was begun with it, and the browser gets a cookie.
The callback page finishes an end user's authorisation by itself only where that cookie comes back. So nobody who begins
one and passes its URL to somebody else gets that one's account.
"""

import hashlib
import secrets
from typing import Annotated
from urllib.parse import parse_qsl

import orjson
from aiohttp import web
from pydantic import StringConstraints

from tieline_api import errors
from tieline_api.auth.authentication import MAX_TOKEN, Caller
from tieline_api.auth.rate_limits import FailureLimiter
from tieline_api.client_address import origin
from tieline_api.connect.page_trail import note_authorisation
from tieline_api.dependencies import Dependencies
from tieline_api.http.auditing import Auditor, PageTrail
from tieline_api.http.middleware import counting_failures
from tieline_api.http.request_body import parse_json, read_body, validate
from tieline_api.http.request_keys import OPERATION, ORGANISATION, SESSION, USER
from tieline_api.schemas.base import Rest
from tieline_api.use_cases.authorization_completion import browser_digest
from tieline_core.identity.ids import parse_id
from tieline_core.oauth.state_store import StateRefusedError, organisation_of, unknown_state

PATH = "/oauth2/start"
_COOKIE = "__Host-tieline-oauth-"
_FORM = "application/x-www-form-urlencoded"
_LIMIT = 64 * 1024
_NAMED = 16
_MAX_FIELDS = 16


class Start(Rest):
    """An authorisation to take up."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOKEN, strip_whitespace=True)]
    """The end user's token."""
    state: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """The state of an authorisation that was begun with it."""


def cookie_name(state: str) -> str:
    """The name of the cookie that ties an authorisation to a browser; each has its own."""
    return f"{_COOKIE}{hashlib.sha256(state.encode()).hexdigest()[:_NAMED]}"


def add_start(
    app: web.Application, platform: Dependencies, failures: FailureLimiter, auditor: Auditor
) -> None:
    """Adds the request."""

    async def start(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2Start"
        with auditor.page(request) as trail:
            return await answer(request, trail)

    async def answer(request: web.Request, trail: PageTrail) -> web.Response:
        forwarded = request.headers.getall("X-Forwarded-For", ())
        address = origin(request.remote, forwarded, trusted=platform.settings.trusted_proxies)
        platform.rates.hit(Caller(username=f"oauth2-start:{address}"))
        body, is_form = await _body(request)
        trail.organisation = platform.cluster.organisation(parse_id(organisation_of(body.state) or "") or "")
        headers = {"Authorization": f"Bearer {body.token}"}
        with counting_failures(failures, address, headers):
            caller = await platform.authentication.caller(headers)
        _check_origin(platform, request, caller, is_form=is_form)
        request[USER] = caller.username
        trail.caller = caller
        if caller.end_user is not None and caller.end_user.session:
            request[SESSION] = trail.session = caller.end_user.session
        platform.end_user_rates.hit(caller)
        namespace = _namespace(platform, request, caller, body.state)
        cookie = secrets.token_urlsafe(32)
        try:
            await _check_begun(platform, caller, body.state, namespace=namespace)
            pending = await platform.oauth_states.tie(
                body.state, namespace=namespace, browser=browser_digest(cookie)
            )
        except StateRefusedError as error:
            raise errors.invalid("state", str(error)) from None
        if trail.organisation is not None:
            note_authorisation(trail, platform, trail.organisation, pending)
        trail.wrote, trail.status = True, 303 if is_form else 200
        response = (
            web.Response(status=303, headers={"Location": pending.authorize_url})
            if is_form
            else web.Response(
                body=orjson.dumps({"url": pending.authorize_url}), content_type="application/json"
            )
        )
        response.headers["Cache-Control"] = "no-store"
        response.set_cookie(
            cookie_name(body.state),
            cookie,
            path="/",
            secure=True,
            httponly=True,
            samesite="Strict",
            max_age=int(platform.settings.oauth_state_seconds),
        )
        return response

    app.router.add_post(PATH, start)


async def _body(request: web.Request) -> tuple[Start, bool]:
    """What was sent, and whether it was a form."""
    raw = await read_body(request, limit=_LIMIT)
    if request.content_type == _FORM:
        try:
            fields = dict(parse_qsl(raw.decode(), max_num_fields=_MAX_FIELDS))
        except ValueError:
            raise errors.malformed("The body is no form with the fields token and state") from None
        body, _ = validate(Start, fields)
        return body, True
    body, _ = validate(Start, parse_json(request, raw))
    return body, False


def _check_origin(platform: Dependencies, request: web.Request, caller: Caller, *, is_form: bool) -> None:
    """ApiError 403 for a page that the token is not for.

    A form leads the browser here, from a page of the application as well. A request of a script can keep the cookie
    only where its page is one of our own.
    """
    settings, scope = platform.settings, caller.end_user
    if scope is None:
        raise errors.forbidden("This is for end users: their tokens alone begin an authorisation here")
    allowed = settings.own_origins
    if is_form:
        allowed |= settings.cors_origins if scope.origins is None else scope.origins
    if request.headers.get("Origin", "").lower() not in allowed:
        raise errors.forbidden(
            "The page may not begin an authorisation with this token: its origin is not allowed"
        )


def _namespace(platform: Dependencies, request: web.Request, caller: Caller, state: str) -> str:
    organisation = parse_id(organisation_of(state) or "")
    if organisation is None or organisation not in (caller.organisations or ()):
        raise errors.invalid("state", str(unknown_state()))
    namespace = platform.cluster.namespace_of(organisation)
    if namespace is None:
        raise errors.invalid("state", str(unknown_state()))
    request[ORGANISATION] = organisation
    return namespace


async def _check_begun(platform: Dependencies, caller: Caller, state: str, *, namespace: str) -> None:
    """StateRefusedError for an authorisation that was not begun with this token."""
    pending = await platform.oauth_states.peek(state, namespace=namespace)
    session = caller.end_user.session if caller.end_user else ""
    if not pending.authorize_url or pending.requested_by != caller.username or pending.session != session:
        raise unknown_state()
