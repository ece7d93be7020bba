"""The provider's API: whose credentials a request has, when there were too many, and what endpoints answer."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tieline.emulator.facts import AnswerFacts, ProviderFacts
from tieline.emulator.grants import Grants, Token
from tieline.emulator.messages import Asked, Reply
from tieline.emulator.oauth1 import OAuth1
from tieline.emulator.paging import EmulatedList
from tieline.emulator.scheme import OAuthScheme, Raw, section
from tieline.emulator.templates import filled, get, put
from tieline.emulator.urls import Endpoint

_SEGMENT = re.compile(r"\{[^}]+\}")
_VALUES: Mapping[str, Any] = {"true": True, "false": False}


@dataclass
class Limit:
    """What is left of a limit that a test has set: so many answers that say "too many requests"."""

    times: int = 0
    seconds: float = 30.0


@dataclass
class Api:
    """The API of one provider."""

    system: Raw
    facts: ProviderFacts
    bases: Sequence[Endpoint]
    """The base URL, and the one that answers name."""
    grants: Grants
    scheme: OAuthScheme | None
    key: str
    """The API key, and the password, that the provider accepts."""
    values: Mapping[str, Any]
    signing: OAuth1 | None = None
    limit: Limit = field(default_factory=Limit)
    lists: list[EmulatedList] = field(default_factory=list)

    def serve(self, asked: Asked) -> Reply | None:
        """The answer; None where it is no URL of the API."""
        found = next(filter(None, (one.match_below(asked.url) for one in self.bases)), None)
        account = self._is_after_token(asked)
        other_host = next(
            (one for one in self.facts.answers if one.host and _is_at(one.host, one.path, asked)), None
        )
        if found is None and not account and other_host is None:
            return None
        if (refusal := self.refusal(asked)) is not None:
            return refusal
        if account:
            return Reply.of(filled(self._account(), self.values))
        if other_host is not None and other_host.method == asked.method:
            return self._answer(other_host, self.values)
        tenant, path = found or ({}, "/")
        return self._endpoint(asked, path, {**self.values, **tenant})

    def _endpoint(self, asked: Asked, path: str, values: Mapping[str, Any]) -> Reply:
        for one in self.facts.answers:
            if one.host is None and one.method == asked.method and _fits(one.path, path):
                return self._answer(one, values)
        check = section(self.system, "check")
        is_check = self._is_check(check, asked, path, values)
        if is_check and "body" in check:
            return self._checked(check, values)
        for listed in self.lists:
            is_there = _fits(listed.path, path) or (listed.following and _fits(listed.following, path))
            if is_there and (reply := listed.serve(asked)) is not None:
                return reply
        if is_check:
            return self._checked(check, values)
        return Reply.of(
            {
                "error": "not_emulated",
                "message": f"Add {asked.method} {path} to emulator.answers of the entry",
            },
            status=501,
        )

    @staticmethod
    def _is_check(check: Raw, asked: Asked, path: str, values: Mapping[str, Any]) -> bool:
        """Whether it is the check request: with the check's body, if it has one."""
        if not check or not _fits(_path_only(str(check.get("path") or "/"), values), path):
            return False
        if asked.method != str(check.get("method") or "GET"):
            return False
        return _has_body(check, asked)

    def _checked(self, check: Raw, values: Mapping[str, Any]) -> Reply:
        """The answer that the provider documents; failing that, one that has what the System expects."""
        if self.facts.check is not None:
            return Reply.of(filled(self.facts.check, values))
        expected = section(check, "expect")
        status = next(iter(expected.get("statuses") or ()), 200)
        return Reply.of(str(expected.get("contains") or "{}"), status=int(status))

    def _account(self) -> Any:
        """The documented answer, often that to the check request; failing both, one that has what the scheme keeps."""
        steps = section(self.scheme.raw if self.scheme else {}, "afterToken")
        keep = steps.get("keep") or ()
        if self.facts.after_token is not None:
            return self.facts.after_token
        if all(get(_document(self.facts.check), kept["path"]) is not None for kept in keep):
            return self.facts.check
        made: Any = None
        for kept in keep:
            name = str(kept.get("variable") or kept.get("as"))
            made = put(made, kept["path"], self.values.get(name, f"{name}-1"))
        return made if made is not None else {}

    # Refusing

    def refusal(self, asked: Asked) -> Reply | None:
        """The answer to a request without what each one must have, or beyond the limit; None where it is let in."""
        for name, value in self._headers().items():
            sent = asked.headers.get(name)
            if sent is None or (value and sent != value):
                body = {"error": "invalid_request", "message": f"the header {name} must be {value or 'set'}"}
                return Reply.of(body, status=400)
        if (unauthorised := self._unauthorised(asked)) is not None:
            return unauthorised
        if self.limit.times > 0:
            self.limit.times -= 1
            return self._answer(self.limited(), {**self.values, **self._until()})
        return None

    def _headers(self) -> Mapping[str, str]:
        sent = section(self.scheme.raw, "token", "headers") if self.scheme else {}
        literal = {name: value for name, value in sent.items() if "{" not in value}
        return {**literal, **self.facts.api_headers}

    def _unauthorised(self, asked: Asked) -> Reply | None:
        if self._has_key(asked):
            return None
        token = self._token(asked)
        if token is None:
            return self._answer(self._expired(), self.values)
        if token.grant.revoked:
            return self._answer(self._revoked(), self.values)
        return None if self.grants.is_live(token) else self._answer(self._expired(), self.values)

    def _token(self, asked: Asked) -> Token | None:
        """The access token that a request shows, or is signed with."""
        scheme = self.scheme
        shown = scheme.presented(asked.headers, asked.url.query) if scheme else None
        if shown is None and self.signing is not None:
            return self.signing.token_of(asked)
        return self.grants.access.get(shown or "")

    def _has_key(self, asked: Asked) -> bool:
        """Whether it has the key or the password of another scheme of the System than OAuth 2.0."""
        return any(self._is_key(asked, one) for one in self.system.get("authSchemeConfigs") or ())

    def _is_key(self, asked: Asked, scheme: Raw) -> bool:
        match scheme["type"]:
            case "none":
                return True
            case "basic-auth":
                return asked.basic is not None and self.key in asked.basic
            case "api-key":
                return self._carried(asked, scheme["apiKey"]) == self._key_with(scheme["apiKey"])
            case "secret":
                return self._carried(asked, scheme["secret"]) == self.key
        return False

    def _key_with(self, options: Raw) -> str:
        return f"{options.get('prefix') or ''}{self.key}"

    @staticmethod
    def _carried(asked: Asked, options: Raw) -> str | None:
        name = str(options.get("name"))
        match options.get("in"):
            case "header":
                return asked.headers.get(name)
            case "query":
                return asked.url.query.get(name)
            case "body":
                content = asked.json
                return str(content.get(name)) if isinstance(content, dict) else asked.form.get(name)
            case _:
                return None

    def _is_after_token(self, asked: Asked) -> bool:
        step = section(self.scheme.raw if self.scheme else {}, "afterToken")
        if not step or asked.method != str(step.get("method") or "GET") or not _has_body(step, asked):
            return False
        url = str(step["url"])
        # The same path without them may be a list.
        wanted = [one for one in parse_qsl(urlsplit(url).query) if "{" not in one[1]]
        return Endpoint.of(url).match(asked.url) is not None and all(
            asked.url.query.get(name) == value for name, value in wanted
        )

    # Forms of answers

    def _answer(self, facts: AnswerFacts, values: Mapping[str, Any]) -> Reply:
        headers = {name: str(filled(value, values)) for name, value in facts.headers.items()}
        return Reply.of(filled(facts.body, values), status=facts.status, headers=headers)

    def _expired(self) -> AnswerFacts:
        return self.facts.expired or self._rejection("expired") or _UNAUTHORISED

    def _revoked(self) -> AnswerFacts:
        return self.facts.revoked or self._rejection("revoked") or self._expired()

    def _rejection(self, name: str) -> AnswerFacts | None:
        conditions = section(self.scheme.raw if self.scheme else {}, "rejections").get(name) or ()
        return _by_condition(conditions[0]) if conditions else None

    def limited(self) -> AnswerFacts:
        """The answer to too many requests."""
        if self.facts.limited is not None:
            return self.facts.limited
        rules = section(self.system, "limits").get("answers") or ()
        return _limited_by(rules[0]) if rules else _TOO_MANY

    def _until(self) -> dict[str, Any]:
        at = self.grants.clock.now() + self.limit.seconds
        moment = datetime.fromtimestamp(at, UTC)
        return {
            "seconds": int(self.limit.seconds),
            "milliseconds": int(self.limit.seconds * 1000),
            "resetAt": int(at),
            "resetAtMs": int(at * 1000),
            "resetIso": moment.isoformat(),
            "resetHttpDate": format_datetime(moment, usegmt=True),
        }


_UNAUTHORISED = AnswerFacts(
    status=401, body={"error": "invalid_token"}, headers={"WWW-Authenticate": "Bearer"}
)
_TOO_MANY = AnswerFacts(status=429, body={"error": "rate_limited"}, headers={"Retry-After": "$seconds"})
_RESETS = {
    "seconds": "$seconds",
    "milliseconds": "$milliseconds",
    "epochSeconds": "$resetAt",
    "epochMilliseconds": "$resetAtMs",
    "iso8601": "$resetIso",
    "httpDate": "$resetHttpDate",
}


def _by_condition(condition: Raw) -> AnswerFacts:
    """The answer that a condition describes."""
    status = int(condition.get("status") or 401)
    if not condition.get("path"):
        return AnswerFacts(status=status, body={"error": "invalid_token"})
    value = condition.get("equals") or next(iter(condition.get("in") or ()), "true")
    return AnswerFacts(status=status, body=put(None, condition["path"], _VALUES.get(value, value)))


def _limited_by(rule: Raw) -> AnswerFacts:
    """The answer that a rule of ``limits.answers`` describes."""
    status = int(rule.get("status") or (200 if rule.get("path") else 429))
    made = _by_condition({**rule, "status": status})
    headers = {}
    if name := rule.get("header"):
        default = "$seconds" if str(name).lower() == "retry-after" else "$resetAt"
        headers[str(name)] = _RESETS.get(str(rule.get("unit")), default)
    if name := rule.get("remaining"):
        headers[str(name)] = "0"
    body = made.body if rule.get("path") else {"error": "rate_limited"}
    if path := rule.get("resetPath"):
        body = put(body, path, _RESETS.get(str(rule.get("unit")), "$seconds"))
    return AnswerFacts(status=status, headers=headers, body=body)


def _document(answer: Any) -> Any:
    """An answer as JSON; an entry may write it as text. None for any other text."""
    if not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return None


def _path_only(path: str, values: Mapping[str, Any]) -> str:
    bare = path.partition("?")[0] or "/"
    return re.sub(r"\{([^}]+)\}", lambda found: str(values.get(found[1], found[0])), bare)


def _has_body(step: Raw, asked: Asked) -> bool:
    """Whether a request has the JSON body that a check or the step after the token names, if it names one."""
    is_json = asked.content_type == "application/json"
    return "body" not in step or (is_json and asked.json == json.loads(step["body"]))


def _is_at(host: str, path: str, asked: Asked) -> bool:
    return Endpoint(host, path).match(asked.url) is not None


def _fits(pattern: str, path: str) -> bool:
    expression = "[^/]+".join(re.escape(part) for part in _SEGMENT.split(pattern.rstrip("/") or "/"))
    return re.fullmatch(expression, path.rstrip("/") or "/") is not None
