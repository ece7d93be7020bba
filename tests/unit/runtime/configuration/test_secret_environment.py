"""Values of secret environment variables never show, however code writes them."""

import base64
import logging
from pathlib import Path

import pytest

from tests.unit.runtime.telemetry.test_redaction import KEY
from tieline.configuration.secret_environment import learn_environment, learn_files
from tieline.telemetry.redaction import Redactor


def knowing(**values: str) -> Redactor:
    redactor = Redactor()
    learn_environment(redactor, {"TIELINE_SECRET_ENV": " , ".join(values), "LEVEL": "debugging", **values})
    return redactor


def test_a_value_is_masked_as_it_is_and_encoded_and_others_are_not() -> None:
    redactor = knowing(DB_PASSWORD="s3cret-passw0rd")
    encoded = base64.b64encode(b"user:s3cret-passw0rd").decode()
    text = redactor(f"s3cret-passw0rd {encoded} debugging")
    assert "s3cret" not in text
    assert encoded not in text
    assert "debugging" in text


def test_the_password_of_a_url_is_masked_by_itself() -> None:
    redactor = knowing(DATABASE_URL="postgresql://app:p%40ssw0rd@db.example/orders")
    assert redactor("no login with p@ssw0rd, nor p%40ssw0rd") == "no login with ***, nor ***"


@pytest.mark.parametrize(
    "value",
    [
        "host=db.example user=app password=s3cret-w0rd dbname=orders",
        "host=db.example password='s3cret-w0rd' dbname=orders",
        "postgresql://db.example/orders?user=app&password=s3cret-w0rd&sslmode=require",
        "Server=db.example;User Id=app;Password=s3cret-w0rd;Encrypt=true",
        "Endpoint=sb://bus.example/;SharedAccessKeyName=all;SharedAccessKey=s3cret-w0rd",
    ],
)
def test_the_password_of_a_connection_string_is_masked_by_itself(value: str) -> None:
    said = knowing(DATABASE=value)("s3cret-w0rd is refused by db.example for app: require, true")
    assert said == "*** is refused by db.example for app: require, true"


def test_each_line_of_a_key_is_masked() -> None:
    redactor = knowing(KEY=KEY)
    assert KEY.splitlines()[3] not in redactor(KEY.splitlines()[3])


def test_a_value_that_is_too_short_to_be_masked_is_warned_of_by_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        redactor = knowing(PIN="a")
    assert redactor("a banana") == "a banana"
    (record,) = caplog.records
    assert "PIN" in record.getMessage()


def test_a_name_without_a_variable_is_nothing() -> None:
    redactor = Redactor()
    learn_environment(redactor, {"TIELINE_SECRET_ENV": "GONE,,"})
    learn_environment(redactor, {})
    assert redactor("as it is") == "as it is"


def test_a_variable_that_counts_as_no_secret_hides_no_password() -> None:
    redactor = Redactor()
    learn_environment(redactor, {"DATABASE": "postgresql://app:s3cret-w0rd@db.example/orders"})
    assert redactor("s3cret-w0rd at db.example") == "*** at db.example"


def test_what_is_in_mounted_secrets_is_masked(tmp_path: Path) -> None:
    # As kubelet mounts them: files are links into a hidden folder.
    hidden = tmp_path / "login" / "..data"
    hidden.mkdir(parents=True)
    (hidden / "password").write_text("s3cret-of-the-file\n")
    (hidden / "key.bin").write_bytes(b"\xff\xfe-binary-s3cret")
    for name in ("password", "key.bin"):
        (tmp_path / "login" / name).symlink_to(hidden / name)
    (tmp_path / "one").write_text("s3cret-of-a-sub-path")
    redactor = Redactor()
    learn_files(redactor, {"TIELINE_SECRET_PATHS": f"{tmp_path}/login:{tmp_path}/one:{tmp_path}/gone"})
    text = redactor(
        f"s3cret-of-the-file s3cret-of-a-sub-path {base64.b64encode((hidden / 'key.bin').read_bytes()).decode()} open"
    )
    assert text == "*** *** *** open"
