"""Requests by which a sender checks a webhook's URL, and what is answered: of requests of other kinds, too."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tieline_protocol.signature_fields import Condition, Place

MAX_CHALLENGES = 4
MAX_CONDITIONS = 4
MAX_ANSWER = 1024
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
PROOFS = ("signature", "secret", "key", "none")
CONTENT_TYPE_PATTERN = r"^[a-z]{1,32}/[a-z0-9.+-]{1,64}$"
_CONTENT_TYPE = re.compile(CONTENT_TYPE_PATTERN)
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")

Proof = Literal["signature", "secret", "key", "none"]


@dataclass(frozen=True, kw_only=True)
class FixedAnswer:
    """What is answered."""

    status: int
    body: str = ""
    content_type: str = ""
    """Default: application/json for a body that begins with a JSON object's brace and quote, else text/plain."""

    @property
    def media_type(self) -> str:
        """The content type of the body."""
        if self.content_type:
            return self.content_type
        return "application/json" if self.body.startswith('{"') else "text/plain"


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """A request that is answered before the code runs."""

    method: str
    proof: Proof
    """``signature``: as for every other request; ``secret``: ``proof_in`` shows a credential of type ``secret`` for
    that place; ``key``: it shows the signing secret itself; ``none``."""
    proof_in: Place | None
    when: tuple[Condition, ...]
    value: Place | None
    """Where the challenge is."""
    answer: FixedAnswer
    """Its body may hold ``{challenge}`` and ``{hmac}``."""
    header: str
    """A header of the answer that repeats the challenge; empty: none does."""


def parse_challenges(options: Mapping[str, Any]) -> tuple[Challenge, ...]:
    """The ``challenges`` of an ``hmac`` object without problems."""
    return tuple(_challenge(one) for one in options.get("challenges") or ())


def parse_answer(content: Mapping[str, Any] | None) -> FixedAnswer | None:
    """An ``answer`` or a ``refusal`` without problems."""
    if not content:
        return None
    return FixedAnswer(
        status=int(content["status"]),
        body=str(content.get("body") or ""),
        content_type=str(content.get("contentType") or ""),
    )


def challenge_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with ``challenges``, ``answer`` and ``refusal``."""
    challenges = options.get("challenges") or ()
    if not isinstance(challenges, list | tuple) or len(challenges) > MAX_CHALLENGES:
        yield f"challenges is a list of at most {MAX_CHALLENGES}"
        return
    for one in challenges:
        yield from _problems(one)
    for name, least, most in (("answer", 200, 299), ("refusal", 400, 499)):
        if options.get(name) is not None:
            yield from _answer_problems(name, options[name], least, most)


def answer_problem(status: int, body: str, content_type: str) -> str | None:
    """What is wrong with what a queued webhook answers; None where nothing is."""
    content = {"status": status, "body": body, "contentType": content_type}
    return next(_answer_problems("answer", content, 200, 299), None)


def _problems(content: Any) -> Iterator[str]:
    if not isinstance(content, Mapping):
        yield "a challenge is an object with method, when, value and body"
        return
    if str(content.get("method") or "POST") not in METHODS:
        yield f"a challenge's method must be one of {', '.join(METHODS)}"
    proof = str(content.get("proof") or "signature")
    if proof not in PROOFS:
        yield f"a challenge's proof must be one of {', '.join(PROOFS)}"
    if (proof in ("secret", "key")) != bool(content.get("proofIn")):
        yield "proofIn is needed with a challenge's proof secret or key, and only then"
    when = content.get("when") or ()
    if not isinstance(when, list | tuple) or len(when) > MAX_CONDITIONS:
        yield f"a challenge's when is a list of at most {MAX_CONDITIONS} conditions"
        return
    if proof != "signature" and not when and str(content.get("method") or "POST") not in ("GET", "HEAD"):
        yield "a challenge without a signature needs a condition in when, or the method GET or HEAD"
    for text, parsed in [(one, Condition.parse) for one in when] + [
        (content[name], Place.parse) for name in ("value", "proofIn") if content.get(name)
    ]:
        try:
            parsed(str(text))
        except ValueError as error:
            yield str(error)
    yield from _answer_problems("a challenge", {"status": 200, **content}, 200, 299)
    header, body = str(content.get("header") or ""), str(content.get("body") or "")
    if header and not _HEADER.fullmatch(header):
        yield "a challenge's header is the name of a header"
    if (header or "{challenge}" in body or "{hmac}" in body) and not content.get("value"):
        yield "a challenge that is repeated or signed in the answer needs value, the place where it is"


def _answer_problems(name: str, content: Any, least: int, most: int) -> Iterator[str]:
    if not isinstance(content, Mapping):
        yield f"{name} is an object with status and body"
        return
    status = content.get("status")
    if not isinstance(status, int) or not least <= status <= most:
        yield f"{name}: status is a number from {least} to {most}"
    if len(str(content.get("body") or "")) > MAX_ANSWER:
        yield f"{name}: body has at most {MAX_ANSWER} characters"
    kind = str(content.get("contentType") or "")
    if kind and (not _CONTENT_TYPE.fullmatch(kind) or kind == "text/html"):
        yield f"{name}: contentType is a media type such as text/plain, and not text/html"


def _challenge(content: Mapping[str, Any]) -> Challenge:
    def place(name: str) -> Place | None:
        return Place.parse(str(content[name])) if content.get(name) else None

    return Challenge(
        method=str(content.get("method") or "POST"),
        proof=cast("Proof", content.get("proof") or "signature"),
        proof_in=place("proofIn"),
        when=tuple(Condition.parse(str(one)) for one in content.get("when") or ()),
        value=place("value"),
        answer=FixedAnswer(
            status=int(content.get("status") or 200),
            body=str(content.get("body") or ""),
            content_type=str(content.get("contentType") or ""),
        ),
        header=str(content.get("header") or ""),
    )
