"""Secrets are masked whole, however they are written, printed or cut, in time proportional to the text."""

import base64
import contextvars
import io
import json
import logging
import re
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from yarl import URL

from tests.harness.clients.secret_leaks import forms, leaks
from tests.unit.runtime.external_systems import api_key, basic, environment, scheme_credential
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Credential, parse
from tieline.errors import CodeError
from tieline.telemetry import logs, redaction, secret_matcher, termination_message
from tieline.telemetry.logs import Log, StdoutLogger
from tieline.telemetry.otlp_json import encode
from tieline.telemetry.redaction import Redactor, current_redactor
from tieline.telemetry.spans import MAX_VALUE_LENGTH, Span, Tracer

KEY = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    .decode()
)
ACCOUNT = json.dumps({"type": "service_account", "private_key": KEY, "client_email": "a@b.example"}, indent=2)
HANG = 60
"""Seconds that nothing here may take by far; what is quadratic takes hours."""


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.fixture
def written(redactor: Redactor) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, sys.stdout, sys.stderr
    stream = io.StringIO()
    logs.configure(redactor, stream=stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:], sys.stdout, sys.stderr = before[0], before[2], before[3]
    root.setLevel(before[1])


@pytest.fixture
def no_hang() -> Iterator[None]:
    def hangs(*_: object) -> None:
        raise AssertionError(f"it takes more than {HANG} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def learn(redactor: Redactor, *credentials: dict[str, Any]) -> None:
    Configuration(redactor=redactor, needed=True).publish(parse(environment("http://x", *credentials)))


def in_a_run(work: Callable[[StdoutLogger], object], redactor: Redactor) -> None:
    """What ``work`` prints, as a run would."""

    def run() -> None:
        logs.begin_run("01EXECUTION")
        work(StdoutLogger(logging.INFO, redactor))
        logs.end_run()

    contextvars.copy_context().run(run)


def no_inner_line_of(key: str, text: str) -> None:
    for line in key.strip().splitlines():
        assert line.startswith("-----") or line not in text, "a line of the key is shown"


@pytest.mark.parametrize(
    "pieces",
    [
        lambda key: [key, "\n"],
        lambda key: [f"The key is {key}", "\n"],
        lambda key: [key.strip(), "\n"],
        lambda key: [key],
        lambda key: [part for line in key.splitlines() for part in (line, "\n")],
        lambda key: [*key],
        lambda key: [key[:700], key[700:], "\n"],
        lambda key: ["first\n" + key + "second ", key, "third\n"],
        lambda key: [repr(key), "\n", json.dumps({"key": key}), "\n", str(key.encode()), "\n"],
        lambda key: ["".join(key.splitlines()[1:-1]), "\n"],
        lambda key: [*([key] * 30)],
        lambda key: ["x" * 65_000, key * 40],
        lambda key: ["x" * 100_000, key[:1000], "x" * 10, key, "\n"],
    ],
    ids=str,
)
def test_a_printed_key_shows_no_line_of_it_however_it_arrives(
    written: io.StringIO, redactor: Redactor, pieces: Callable[[str], list[str]]
) -> None:
    learn(redactor, scheme_credential("jwt-bearer", {"algorithm": "RS256"}, privateKey=KEY))

    def work(stdout: StdoutLogger) -> None:
        for piece in pieces(KEY):
            stdout.write(piece)

    in_a_run(work, redactor)
    assert "***" in written.getvalue()
    no_inner_line_of(KEY, written.getvalue())
    for line in written.getvalue().splitlines():
        json.loads(line)


def test_a_key_within_a_json_file_that_is_the_secret_is_masked_by_itself(
    written: io.StringIO, redactor: Redactor
) -> None:
    learn(redactor, api_key("header", ACCOUNT))
    Log("01E").info("The key", key=json.loads(ACCOUNT)["private_key"])
    in_a_run(lambda stdout: stdout.write(json.loads(ACCOUNT)["private_key"]), redactor)
    no_inner_line_of(KEY, written.getvalue())


@pytest.mark.parametrize("secret", ["pa55wörd+/x", "sk_live_0123456789ab", 'k"e\\y/ü 1&\n2', KEY, ACCOUNT])
def test_every_form_is_masked(written: io.StringIO, redactor: Redactor, secret: str) -> None:
    redactor.learn([secret])
    found = {name: form.decode() for name, form in forms(secret.encode()).items() if "twice in" not in name}
    for name, form in found.items():
        # Lines are recognised as they are written; encoded they are found as a part of the whole only.
        if name.startswith("line") and ("base64" in name or "hexa" in name):
            continue
        assert form not in redactor(f"a {form} b"), name
        Log("01E").info(f"a {form} b", form=form, **{form: [form]})
        assert form not in json.dumps(entries(written), ensure_ascii=False), name
    for text in (base64.b64encode(f"x{secret}y".encode()).decode(), f"x{secret}y".encode().hex()):
        assert not leaks({"secret": secret}, {"encoded": redactor(text)})


@pytest.mark.parametrize(
    "secret", ["pa\"ss\\wo'rd&<1>", "ünïcödé-sëcret-9", "tab\tsecret\x01ctl", "sk_live_0123456789ab"]
)
def test_a_secret_is_masked_in_two_layers_of_escaping_and_in_capitals(
    redactor: Redactor, secret: str
) -> None:
    redactor.learn([secret])
    inner = json.dumps({"p": secret})
    wrapped = {
        "json twice": json.dumps(json.dumps(secret)),
        "json twice, unicode": json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False),
        "repr twice": repr(repr(secret)),
        "repr in json": json.dumps({"e": repr({"p": secret})}),
        "bytes": repr(secret.encode()),
        "ascii": ascii(secret),
        "capitals": secret.encode().hex().upper(),
        "json in base64": base64.b64encode(inner.encode()).decode(),
        "unicode json in base64": base64.b64encode(
            json.dumps({"p": secret}, ensure_ascii=False).encode()
        ).decode(),
    }
    for name, text in wrapped.items():
        for line in (text, json.dumps({"message": text}, ensure_ascii=False)):
            assert "***" in redactor(line), name


def test_binary_secrets_are_masked_as_python_shows_them_and_encoded(redactor: Redactor) -> None:
    content = b"\xff\xfe" + secrets.token_bytes(30)
    credential = scheme_credential(
        "hmac", {"algorithm": "sha256"}, valueBase64=base64.b64encode(content).decode()
    )
    learn(redactor, credential)
    for text in (
        str(content),
        content.hex(),
        content.hex().upper(),
        content.hex(":"),
        content.hex(":").upper(),
        base64.b64encode(b"a" + content).decode(),
    ):
        assert not leaks({"secret": content}, {"text": redactor(text)})
    assert redactor(content.hex(":").upper()) == "***"
    assert redactor(str(content)) in ("b'***'", 'b"***"')


def test_hosts_ports_user_names_and_short_values_stay_readable(redactor: Redactor) -> None:
    fields = {"smtpHost": "mail.shop.example", "port": "252525", "USER": "orders", "account": "acme-eu"}
    secret = {"apiToken": "t0ken-value", "pass": "p4ssw0rd", "pin": "2525", "url": "smtp://o:s3cret-w0rd@h"}
    exposed = {
        **basic("orders", "long-enough"),
        "name": "mail",
        "fields": {**fields, **secret},
        "notSecret": ["account"],
    }
    learn(redactor, api_key("header", "eu"), exposed)
    text = "A-2525250 for orders of acme-eu at mail.shop.example:252525"
    assert redactor(text) == text
    assert (
        redactor("t0ken-value p4ssw0rd long-enough s3cret-w0rd smtp://o:s3cret-w0rd@h")
        == "*** *** *** *** ***"
    )


def test_a_password_in_a_url_is_masked_whatever_its_field_is_called(redactor: Redactor) -> None:
    fields = {"database": "postgres://ann:s3cret-w0rd@db.example/orders", "host": "db.example"}
    learn(redactor, {**basic("orders", "long-enough"), "name": "db", "fields": fields})
    assert redactor("s3cret-w0rd at db.example") == "*** at db.example"


@pytest.mark.parametrize(("user", "password"), [("ann", "pa55wörd"), ("sk_live_0123456789", "")])
def test_basic_authentication_is_masked_also_for_keys_that_are_sent_as_user_names(
    redactor: Redactor, user: str, password: str
) -> None:
    learn(redactor, basic(user, password))
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    assert redactor(f"Basic {token}") == "Basic ***"
    if not password:
        assert redactor(f"key={user}x") == "key=***x"


def test_a_password_in_a_connections_url_is_masked(redactor: Redactor) -> None:
    body = environment("https://ann:p%40ssword@shop.example/v1")
    Configuration(redactor=redactor, needed=True).publish(parse(body))
    assert redactor("p%40ssword p@ssword") == "*** ***"


def test_lines_stay_json_whatever_is_secret(written: io.StringIO, redactor: Redactor) -> None:
    learn(redactor, api_key("header", "message"), basic("a", "INFO-2026"), api_key("query", "123456"))
    Log("01E").info("A message of INFO-2026", pin=123456, longer=1234567, severity="INFO", message="x")
    (entry,) = entries(written)
    assert (entry["severity"], entry["message"]) == ("INFO", "A *** of ***")
    assert entry["fields"] == {"pin": "***", "longer": 1234567, "severity": "INFO", "***": "x"}


def test_secrets_that_overlap_are_masked_together(redactor: Redactor) -> None:
    redactor.learn(["abcdef", "defghi"])
    assert redactor("x abcdefghi y abcdefabcdef") == "x *** y ***"


def test_what_is_configured_stays_known_whatever_else_was_learnt(redactor: Redactor) -> None:
    learn(redactor, api_key("header", "the-key-in-use"))
    redactor.learn([f"token-{number:06d}" for number in range(3000)])
    assert redactor("the-key-in-use token-002999 token-000001") == "*** *** token-000001"
    many = [api_key("header", f"key-{number:06d}") for number in range(1500)]
    learn(redactor, *many)
    assert redactor("key-000000 key-001499 the-key-in-use") == "*** *** ***"


def test_many_secrets_are_found_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ["abcd", "abcdefgh", "abcdefgh-long", "abxy-1", "bcdefghi", 'q"uote', KEY, "-----BEGIN"]
    text = " ".join([*known, "abcdefghi", "ab", json.dumps(known), KEY[:300]])
    few, many = Redactor(), Redactor()
    few.learn(known)
    monkeypatch.setattr(secret_matcher, "_FEW", 0)
    many.learn(known)
    assert few(text) == many(text)
    assert few.suspects(text)
    assert many.suspects(text)
    assert not many.suspects("abc -----BEGI")


def test_an_attribute_a_name_and_an_error_are_masked_before_they_are_cut(redactor: Redactor) -> None:
    learn(redactor, api_key("header", "s3cr3t-value"))
    ended: list[Span] = []
    for left in range(1, 13):
        before = "x" * (MAX_VALUE_LENGTH - left)
        with Tracer(ended.append, redactor).span(f"{'x' * (256 - left)}s3cr3t-value") as span:
            span.set(said=f"{before}s3cr3t-value and more", pin=12345)
            span.fail(f"{before}s3cr3t-value and more")
    body = encode(ended, resource={}, redact=redactor).decode()
    for size in range(4, 13):
        assert "s3cr3t-value"[:size] not in body
    assert all(len(str(span.attributes["said"])) <= MAX_VALUE_LENGTH for span in ended)


def test_a_number_that_is_a_secret_is_masked_in_spans(redactor: Redactor) -> None:
    learn(redactor, api_key("header", "123456"))
    ended: list[Span] = []
    with Tracer(ended.append, redactor).span("one") as span:
        span.set(pin=123456, count=1234567)
    body = encode(ended, resource={}, redact=redactor).decode()
    assert '"intValue":"1234567"' in body
    assert '"123456"' not in body


def test_spans_of_a_users_run_hold_none_of_the_users_secrets() -> None:
    own = Redactor()
    own.learn(["key-of-ann"])
    ended: list[Span] = []

    def run() -> None:
        current_redactor.set(lambda: own)
        with Tracer(ended.append).span("call key-of-ann") as span:
            span.set(said="key-of-ann", long="x" * MAX_VALUE_LENGTH + "key-of-ann")
            span.attributes["url.full"] = str(URL("https://shop.example/key-of-ann"))
            span.fail("key-of-ann")

    contextvars.copy_context().run(run)
    assert "key-of-ann" not in str(ended)


def test_what_two_runs_print_without_line_breaks_stays_apart_and_is_masked_for_each(
    written: io.StringIO, redactor: Redactor
) -> None:
    stdout = StdoutLogger(logging.INFO, redactor)
    runs = {user: contextvars.copy_context() for user in ("ann", "ben")}

    def begin(user: str) -> None:
        own = Redactor()
        own.learn([f"key-of-{user}"])
        logs.begin_run(user)
        current_redactor.set(lambda: own)

    for user, context in runs.items():
        context.run(begin, user)
    for part in ("key", "-of-"):
        for context in runs.values():
            context.run(stdout.write, part)
    for user, context in runs.items():
        context.run(stdout.write, user)
        context.run(logs.end_run)
    assert [(entry["executionId"], entry["message"]) for entry in entries(written)] == [
        ("ann", "***"),
        ("ben", "***"),
    ]


def test_the_termination_message_is_masked_before_it_is_cut(tmp_path: Path, redactor: Redactor) -> None:
    redactor.learn(["s3cr3t-value"])
    for left in range(1, 13):
        error = CodeError("x" * (2048 - left) + "s3cr3t-value")
        termination_message.write(tmp_path / "message", error, redactor)
        text = (tmp_path / "message").read_text()
        assert not any("s3cr3t-value"[:size] in text for size in range(4, 13))
    error = CodeError("main.py:1: ValueError")
    error.__cause__ = ValueError(f"{KEY}{'x' * 1500}")
    redactor.learn([KEY])
    termination_message.write(tmp_path / "message", error, redactor)
    no_inner_line_of(KEY, (tmp_path / "message").read_text())


def test_tokens_by_their_form_are_those_that_a_search_at_each_place_would_find(redactor: Redactor) -> None:
    token = jwt.encode({"iss": "anybody"}, "k" * 32, algorithm="HS256")
    for text, masked in {
        f"a {token} b": "a *** b",
        f"xx{token}.more": "xx***.more",
        f"{token}.{token}": "***.***",
        f"eyJ.{token}": "eyJ.***",
        f"a.b.{token}": "a.b.***",
        "eyJeyJeyJ.eyJeyJeyJ.short": "eyJeyJeyJ.eyJeyJeyJ.short",
        "eyJeyJeyJeyJ.eyJeyJeyJ.eyJeyJeyJeyJeyJeyJ": "***",
    }.items():
        assert redactor(text) == masked


MEGABYTE = 1024 * 1024


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * (MEGABYTE // 3),
        "eyJeyJeyJeyJ." * (MEGABYTE // 13),
        "eyJhbGciOi.eyJ." * (MEGABYTE // 15),
        "-" * MEGABYTE,
        "-----BEGIN PRIVATE KEY-----\n" * (MEGABYTE // 28),
        "a" * MEGABYTE,
        (KEY[:-40] + "x") * (MEGABYTE // len(KEY)),
        "\n" * MEGABYTE,
        "sk_live_" * (MEGABYTE // 8),
    ],
    ids=lambda text: repr(text[:16]),
)
@pytest.mark.parametrize("count", [3, 300], ids=["few", "many"])
def test_a_megabyte_of_anything_is_looked_through_at_once(
    written: io.StringIO, redactor: Redactor, text: str, count: int
) -> None:
    redactor.learn([KEY, "a" * 5000 + "b", *(f"sk_live_{number:016d}" for number in range(count))])
    redactor(text if count < 100 else text[: MEGABYTE // 4])
    text = text[: MEGABYTE // 16]
    Log("01E").info(text)
    in_a_run(lambda stdout: [stdout.write(text), stdout.write("\n")], redactor)
    in_a_run(lambda stdout: [stdout.write(text[at : at + 100]) for at in range(0, len(text), 100)], redactor)
    assert logs.run_log is not None
    logs.run_log.write(webhook="hook", method="GET", path=f"/{text}", status=404, seconds=0.1)
    with Tracer(lambda _: None, redactor).span(text) as span:
        span.set(text=text)


def test_the_work_for_tokens_grows_with_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    real = redaction._JWT_RUN

    class Counting:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            nonlocal looked_at
            for found in real.finditer(text):
                looked_at += len(found[0])
                yield found

    monkeypatch.setattr(redaction, "_JWT_RUN", Counting())
    for text in ("eyJ" * 100_000, "eyJeyJeyJeyJ." * 20_000, "eyJ eyJ." * 40_000):
        looked_at = 0
        redaction.jwts(text)
        assert looked_at <= len(text)


def test_threads_of_a_run_do_not_share_a_line(written: io.StringIO, redactor: Redactor) -> None:
    def work(stdout: StdoutLogger) -> None:
        context = contextvars.copy_context()
        stdout.write("from the run")
        thread = threading.Thread(target=lambda: context.run(stdout.write, "from a thread\n"))
        thread.start()
        thread.join()

    in_a_run(work, redactor)
    assert [entry["message"] for entry in entries(written)] == ["from a thread", "from the run"]


def test_secrets_of_a_credential_are_all_but_what_is_public() -> None:
    data = {"clientId": "public", "clientSecret": "hidden", "username": "ann", "password": "word"}
    credential = Credential(id="c", type="t", scheme="oauth2", options={}, data=data)
    assert set(credential.secrets()) == {"hidden", "word", "ann:word"}
