"""The search for secrets finds planted ones: a search that finds nothing must be able to."""

import base64
import json
import os
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
import yaml

from tests.harness.clients.secret_leaks import forms, leaks

VALUE = "s3cr/t+ü val=&ue"
PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIGHAgEAMBMGByqG\nSM49AgEGCCqGSM49\n" + "-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "written",
    [
        lambda value: f"Authorization: {value}",
        lambda value: json.dumps({"message": value}),
        lambda value: json.dumps({"message": value}, ensure_ascii=False),
        lambda value: urlencode({"client_secret": value}),
        quote,
        quote_plus,
        lambda value: quote(quote(value, safe="")),
        lambda value: yaml.safe_dump({"data": base64.b64encode(value.encode()).decode()}, width=10_000),
        lambda value: "Basic " + base64.b64encode(f"user:{value}".encode()).decode(),
        lambda value: "Basic " + base64.b64encode(f"user1:{value}:more".encode()).decode(),
        lambda value: "Basic " + base64.b64encode(f"user12:{value}".encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
        lambda value: base64.b64encode(base64.b64encode(value.encode())).decode(),
        lambda value: value.encode().hex(),
        lambda value: repr({"headers": value}),
    ],
)
@pytest.mark.parametrize("value", [VALUE, "ab+/" * 4, PEM])
def test_a_planted_secret_is_found(written: Callable[[str], str], value: str) -> None:
    content = f"before\n{written(value)}\nafter"
    places = {"a log": content, "elsewhere": "nothing here"}
    found = leaks({"the password": value}, places)
    assert {(leak.secret, leak.place) for leak in found} == {("the password", "a log")}


def test_bytes_that_are_no_text_are_found_in_base64() -> None:
    value = b"\xff\x00" + os.urandom(30)
    inside = base64.b64encode(b"x" + value + b"yz")
    assert leaks({"key": value}, {"a manifest": inside})


def test_one_line_of_a_key_is_enough() -> None:
    assert leaks({"key": PEM}, {"a trace": "... SM49AgEGCCqGSM49 ..."})


def test_what_is_not_there_is_not_found() -> None:
    places = {"a log": "-----BEGIN PRIVATE KEY-----", "another": base64.b64encode(b"other things")}
    assert leaks({"password": VALUE, "key": PEM}, places) == []


def test_a_value_that_chance_would_bring_is_not_looked_for() -> None:
    with pytest.raises(AssertionError, match="too short"):
        forms(b"short")
