"""Auth schemes of type ``hmac``: what their fields mean, with the presets of well-known senders expanded.

Platform and pods read the options of a scheme with ``parse``, so both refuse the same. A preset is stored as it was
written, and expanded here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tieline_protocol.signature_challenges import (
    Challenge,
    FixedAnswer,
    challenge_problems,
    parse_answer,
    parse_challenges,
)
from tieline_protocol.signature_fields import FIELD_PATH, HEADER_NAME, MAX_PATH
from tieline_protocol.signature_presets import PRESETS, Preset

MAX_INPUTS = 24
MAX_INPUT = 300
MAX_SIGNATURES = 16
"""How many signatures of a request are compared; senders send several while a secret is rotated."""
MAX_NAMES = 8
DEFAULT_TOLERANCE = 300

_HASH_NAMES = r"(sha1|sha256|sha384|sha512|crc32)(:base64)?"
INPUT_PATTERN = (
    r"^(body|url|decodedUrl|method|path|timestamp|id|secret|form"
    rf"|(header|signedHeaders):{HEADER_NAME}|(field|phpForm):{FIELD_PATH}|jsonLines:[A-Za-z0-9_,]+"
    rf"|bodyHash:{_HASH_NAMES}|literal:[\s\S]{{1,128}})$"
)
_INPUT = re.compile(INPUT_PATTERN)
INPUT_WORDS = (
    "body, url, decodedUrl, method, path, timestamp, id, secret, form, header:NAME, signedHeaders:NAME, field:PATH, "
    "phpForm:NAME, jsonLines:NAMES, bodyHash:HASH or literal:TEXT"
)
_NAME = r"!#$%&'*+.^_`|~0-9A-Za-z\[\]-"
SIGNATURE_NAME_PATTERN = rf"^[/{_NAME}]+$"
_PARAMETER_NAME = re.compile(rf"[{_NAME}]{{1,128}}")
BODY_HASH_PATTERN = rf"^((claim|query):{FIELD_PATH}|header:{HEADER_NAME})$"
_BODY_HASH = re.compile(BODY_HASH_PATTERN)

HMAC_ALGORITHMS = ("sha1", "sha256", "sha384", "sha512")
HASH_ALGORITHMS = ("hash-sha1", "hash-sha256", "hash-sha512")
KEY_ALGORITHMS = ("rsa-sha1", "rsa-sha256", "rsa-sha512", "rsa-pss-sha256", "ecdsa-sha256", "ed25519")
JWT_ALGORITHMS = ("jwt-hs256", "jwt-hs384", "jwt-hs512", "jwt-rs256", "jwt-es256")
VALUE_ALGORITHMS = ("token", "basic")
ALGORITHMS = (*HMAC_ALGORITHMS, *HASH_ALGORITHMS, *KEY_ALGORITHMS, *JWT_ALGORITHMS, *VALUE_ALGORITHMS)
LOCATIONS = ("query", "header", "cookie", "body")
ENCODINGS = ("hex", "base64", "base64url")
FORMATS = ("plain", "fields", "list", "timedList")
KEY_ENCODINGS = ("text", "base64", "hex", "sha1")
TIMESTAMP_UNITS = ("seconds", "milliseconds", "iso8601", "httpDate")
_NEEDED = ("name", "in", "algorithm", "digestInputs")
_SIGNS_NOTHING = frozenset((*JWT_ALGORITHMS, *VALUE_ALGORITHMS))

InputKind = Literal[
    "body",
    "url",
    "decodedUrl",
    "method",
    "path",
    "timestamp",
    "id",
    "secret",
    "form",
    "header",
    "signedHeaders",
    "field",
    "phpForm",
    "jsonLines",
    "bodyHash",
    "literal",
]

SET_BY_PRESET = (
    "name",
    "in",
    "otherNames",
    "algorithm",
    "digestInputs",
    "encoding",
    "signatureFormat",
    "signatureField",
    "separator",
    "prefix",
    "timestampHeader",
    "timestampField",
    "timestampPath",
    "timestampUnit",
    "idHeader",
    "idPath",
    "keyEncoding",
    "keyPrefix",
    "bodyHash",
    "queryHashClaim",
    "challenges",
)
"""The options that cannot be given beside a preset: all but ``toleranceSeconds``, ``answer`` and ``refusal``."""


class InvalidSignatureSchemeError(ValueError):
    """The options do not describe a signature; the message says why, and names no secret."""


@dataclass(frozen=True)
class DigestInput:
    """One part of what is signed."""

    kind: InputKind
    argument: str = ""
    """The name of a header or a field, or the text of a literal."""


@dataclass(frozen=True, kw_only=True)
class SignatureScheme:
    """How requests are signed."""

    names: tuple[str, ...]
    """What carries signatures; the first one is the name that a signature is sent under."""
    location: str
    """Where the signature is: ``header``, ``query``, ``cookie`` or ``body``."""
    algorithm: str
    inputs: tuple[DigestInput, ...]
    encoding: str
    format: str
    """``plain``: one signature; ``fields``: ``t=…,v1=…``; ``list``: several signatures; ``timedList``: the time, then
    signatures."""
    signature_field: str
    separator: str
    prefix: str
    timestamp_header: str
    timestamp_field: str
    timestamp_path: str
    timestamp_unit: str
    id_header: str
    id_path: str
    tolerance_seconds: int
    key_encoding: str
    key_prefix: str
    body_hash: tuple[str, str] | None
    """Where the body's SHA-256 is: ``claim``, ``query`` or ``header``, and its name."""
    query_hash_claim: str
    challenges: tuple[Challenge, ...]
    answer: FixedAnswer | None
    """What a queued webhook answers."""
    refusal: FixedAnswer | None
    """What is answered to a request that does not verify."""
    preset: str
    certificates: str
    """Whose certificates requests name, of senders that publish them at fixed hosts; else empty."""

    @property
    def name(self) -> str:
        """What a signature is sent under."""
        return self.names[0]

    @property
    def has_timestamp(self) -> bool:
        """Whether requests say when they were signed."""
        in_list = self.format == "timedList"
        return in_list or bool(self.timestamp_header or self.timestamp_field or self.timestamp_path)

    @property
    def can_sign(self) -> bool:
        """Whether the credential makes signatures; those of public keys and of tokens only verify them."""
        return self.algorithm in (*HMAC_ALGORITHMS, *HASH_ALGORITHMS) and self.location != "body"

    @property
    def covers_time(self) -> bool:
        """Whether a repeated request with a new time needs a new signature."""
        return self.signs("timestamp") or (
            self.has_timestamp and self.signs("body") and bool(self.timestamp_path)
        )

    def signs(self, *kinds: InputKind) -> bool:
        """Whether the signature covers an input of one of these kinds."""
        return any(one.kind in kinds for one in self.inputs)


def parse(options: Mapping[str, Any]) -> SignatureScheme:
    """The scheme that an ``hmac`` object describes, with its preset expanded. Raises InvalidSignatureSchemeError."""
    problem = next(_problems(options), None)
    if problem:
        raise InvalidSignatureSchemeError(problem)
    preset = PRESETS.get(_text(options, "preset"))
    given = {
        name: value
        for name, value in options.items()
        if value is not None and not (preset and name in SET_BY_PRESET)
    }
    return _scheme({**preset.options, **given} if preset else given, preset)


def problem_of(options: Mapping[str, Any]) -> str | None:
    """What is wrong with an ``hmac`` object; None where nothing is."""
    return next(_problems(options), None)


def _scheme(known: Mapping[str, Any], preset: Preset | None) -> SignatureScheme:
    kind = _text(known, "signatureFormat") or "plain"
    place, _, name = _text(known, "bodyHash").partition(":")
    return SignatureScheme(
        names=(str(known["name"]), *map(str, known.get("otherNames") or ())),
        location=str(known["in"]),
        algorithm=str(known["algorithm"]),
        inputs=tuple(_input(str(one)) for one in known.get("digestInputs") or ()),
        encoding=_text(known, "encoding") or "hex",
        format=kind,
        signature_field=_text(known, "signatureField"),
        separator=_text(known, "separator") or (" " if kind == "list" else ","),
        prefix=_text(known, "prefix"),
        timestamp_header=_text(known, "timestampHeader"),
        timestamp_field=_text(known, "timestampField"),
        timestamp_path=_text(known, "timestampPath"),
        timestamp_unit=_text(known, "timestampUnit") or "seconds",
        id_header=_text(known, "idHeader"),
        id_path=_text(known, "idPath"),
        tolerance_seconds=int(known.get("toleranceSeconds") or DEFAULT_TOLERANCE),
        key_encoding=_text(known, "keyEncoding") or "text",
        key_prefix=_text(known, "keyPrefix"),
        body_hash=(place, name) if name else None,
        query_hash_claim=_text(known, "queryHashClaim"),
        challenges=parse_challenges(known),
        answer=parse_answer(known.get("answer")),
        refusal=parse_answer(known.get("refusal")),
        preset=_text(known, "preset"),
        certificates=preset.certificates if preset else "",
    )


def _problems(options: Mapping[str, Any]) -> Iterator[str]:
    tolerance = options.get("toleranceSeconds")
    if tolerance is not None and not (isinstance(tolerance, int) and tolerance > 0):
        yield "toleranceSeconds is a number of seconds from 1 on"
    yield from challenge_problems(options)
    if preset := options.get("preset"):
        yield from _preset_problems(str(preset), options)
        return
    if options.get("digestInputs") in ([], ()):
        yield f"digestInputs is empty, so nothing is signed; add inputs: {INPUT_WORDS}"
    needed = _NEEDED[:3] if options.get("algorithm") in _SIGNS_NOTHING else _NEEDED
    if missing := [name for name in needed if not options.get(name)]:
        yield (
            f"set {', '.join(missing)}, or a preset in place of name, in, algorithm and digestInputs; "
            "docs/webhooks.md lists the presets"
        )
    for name, choices in (
        ("in", LOCATIONS),
        ("algorithm", ALGORITHMS),
        ("encoding", ENCODINGS),
        ("signatureFormat", FORMATS),
        ("keyEncoding", KEY_ENCODINGS),
        ("timestampUnit", TIMESTAMP_UNITS),
    ):
        yield from _choice(options, name, choices)
    yield from _input_problems(options)
    yield from _timestamp_problems(options)
    yield from _format_problems(options)
    yield from _algorithm_problems(options)


def _preset_problems(preset: str, options: Mapping[str, Any]) -> Iterator[str]:
    if preset not in PRESETS:
        yield f'there is no preset "{preset[:64]}"; there are {", ".join(PRESETS)}'
    if set_too := [name for name in SET_BY_PRESET if options.get(name) not in (None, "")]:
        yield (
            f"preset {preset} sets {', '.join(set_too)}: leave {'that' if len(set_too) == 1 else 'those'} out, or "
            "leave out preset and set all of name, in, algorithm and digestInputs"
        )


def _input_problems(options: Mapping[str, Any]) -> Iterator[str]:
    inputs = options.get("digestInputs") or ()
    if not isinstance(inputs, list | tuple) or len(inputs) > MAX_INPUTS:
        yield f"digestInputs is a list of 1 to {MAX_INPUTS} inputs"
        return
    for one in inputs:
        if not _INPUT.fullmatch(str(one)):
            yield f'digestInputs holds "{str(one)[:50]}"; an input is {INPUT_WORDS}'
    if "id" in inputs and not (options.get("idHeader") or options.get("idPath")):
        yield "digestInputs holds id: set idHeader, the header with the sender's id of the request, or idPath"
    if "secret" in inputs and options.get("algorithm") in HMAC_ALGORITHMS:
        yield "digestInputs holds secret, which an HMAC has as its key: remove it, or choose a hash- algorithm"
    if options.get("algorithm") in HASH_ALGORITHMS and "secret" not in inputs:
        yield "a hash- algorithm proves nothing without the secret: add secret to digestInputs"


def _timestamp_problems(options: Mapping[str, Any]) -> Iterator[str]:
    given = [name for name in ("timestampHeader", "timestampField", "timestampPath") if options.get(name)]
    if len(given) > 1:
        yield f"{' and '.join(given)} exclude each other; set the one that has the time"
    signed = "timestamp" in (options.get("digestInputs") or ())
    if signed and not given and options.get("signatureFormat") != "timedList":
        yield (
            "digestInputs holds timestamp: set timestampHeader, timestampPath, or timestampField where the "
            "signature's header has it"
        )
    if len(_text(options, "timestampPath")) > MAX_PATH or len(_text(options, "idPath")) > MAX_PATH:
        yield f"timestampPath and idPath have at most {MAX_PATH} characters"


def _format_problems(options: Mapping[str, Any]) -> Iterator[str]:
    kind = options.get("signatureFormat") or "plain"
    is_fields = kind == "fields"
    if is_fields and not options.get("signatureField"):
        yield "signatureFormat fields needs signatureField, such as v1 for t=…,v1=…"
    if is_fields and options.get("prefix"):
        yield "prefix is for plain and lists; with signatureFormat fields, signatureField names the signature"
    if options.get("separator") and kind == "plain":
        yield "separator needs signatureFormat fields, list or timedList"
    for name in ("signatureField", "timestampField"):
        if options.get(name) and not is_fields:
            yield f"{name} needs signatureFormat fields"
        if not _is_field_name(_text(options, name)):
            yield f"{name} must hold no comma, equals sign or space"
    others = options.get("otherNames") or ()
    if others and (options.get("in") != "header" or kind != "plain" or len(others) >= MAX_NAMES):
        yield f"otherNames are at most {MAX_NAMES - 1} further headers of the signatureFormat plain"


def _algorithm_problems(options: Mapping[str, Any]) -> Iterator[str]:
    algorithm = str(options.get("algorithm") or "")
    if algorithm in _SIGNS_NOTHING and options.get("digestInputs"):
        yield f"algorithm {algorithm} takes no digestInputs; remove them"
    body_hash = _text(options, "bodyHash")
    if body_hash and not _BODY_HASH.fullmatch(body_hash):
        yield "bodyHash says where the body's SHA-256 is: claim:NAME, query:NAME or header:NAME"
    if body_hash.startswith("claim:") != (bool(body_hash) and algorithm in JWT_ALGORITHMS):
        yield "bodyHash names a claim with an algorithm of the family jwt-, and only then"
    if options.get("queryHashClaim") and algorithm not in JWT_ALGORITHMS:
        yield "queryHashClaim needs an algorithm of the family jwt-"
    if options.get("in") != "body" and not _PARAMETER_NAME.fullmatch(_text(options, "name")):
        yield "name is that of a header, query parameter or cookie; the path of a field of the body needs in body"
    if algorithm == "basic" and options.get("in") != "header":
        yield "algorithm basic is for a header, mostly Authorization"


def _is_field_name(text: str) -> bool:
    return set(text).isdisjoint(",= \t")


def _choice(options: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> Iterator[str]:
    value = options.get(name)
    if value is not None and str(value) not in choices:
        yield f"{name} must be one of {', '.join(choices)}"


def _input(text: str) -> DigestInput:
    kind, _, argument = text.partition(":")
    return DigestInput(cast("InputKind", kind), argument)


def _text(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    return "" if value is None else str(value)
