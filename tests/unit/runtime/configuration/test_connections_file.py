"""A connections file on your machine: secrets from elsewhere, errors with their line, changes that arrive."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.harness.session.waiting import until
from tests.unit.runtime.external_systems import configured
from tieline.configuration.connections_file import ConnectionsFileError, read
from tieline.configuration.file_source import FileSource
from tieline.configuration.snapshot import parse

FILE = """\
variables: {region: eu, price: "$${amount}"}
connections:
  shop:
    baseUrl: https://${SHOP_HOST}/v2
    credentials:
      - type: string
        authScheme: {type: api-key, apiKey: {name: X-API-Key, in: header}}
        data: {value: "${file:keys/shop}"}
users:
  ann:
    connections:
      loyalty: {baseUrl: "http://localhost:9001"}
"""


def write(folder: Path, text: str = FILE, *, name: str = "connections.yaml") -> Path:
    (folder / "keys").mkdir(exist_ok=True)
    (folder / "keys" / "shop").write_text("key of the shop\n")
    path = folder / name
    path.write_text(text)
    return path


TENANTS = """\
connections:
  shop:
    baseUrl: https://{{shop}}.shop.example/admin
    variables: {{shop: {value}}}
    credentials:
      - authScheme:
          type: oauth2
          oauth2: {{tokenUrl: "https://{{shop}}.shop.example/token", grant: {{type: clientCredentials}}}}
"""


def test_variables_of_a_connection_fill_its_urls(tmp_path: Path) -> None:
    shop = read(write(tmp_path, TENANTS.format(value="my-shop")), {})["connections"]["shop"]
    assert shop["baseUrl"] == "https://my-shop.shop.example/admin"
    assert shop["credentials"][0]["authScheme"]["oauth2"]["tokenUrl"] == "https://my-shop.shop.example/token"
    for value in ("evil.example/", "a.b", '"x@evil"'):
        with pytest.raises(ConnectionsFileError, match=r"connections\.shop: .*shop"):
            read(write(tmp_path, TENANTS.format(value=value)), {})


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    body = read(write(tmp_path), {"SHOP_HOST": "shop.example"})
    shop = parse(body).connection("shop")
    assert shop.base_url == "https://shop.example/v2"
    assert shop.credentials[0].data == {"value": "key of the shop"}
    assert body["variables"] == {"region": "eu", "price": "${amount}"}


def test_templates_follow_from_the_connections(tmp_path: Path) -> None:
    templates = parse(read(write(tmp_path), {"SHOP_HOST": "x"})).templates
    assert {name: (item.dynamic, item.linked) for name, item in templates.items()} == {
        "shop": (False, True),
        "loyalty": (True, False),
    }
    text = "templates: {shop: {dynamic: false, linked: false}}\n"
    assert not parse(read(write(tmp_path, text), {})).templates["shop"].linked


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("connections.yaml", FILE, r"yaml:4: the environment variable SHOP_HOST is not set"),
        (
            "connections.yaml",
            "variables:\n  a: ${file:no/where}\n",
            "yaml:2: the file no/where cannot be read",
        ),
        ("connections.yaml", "variables:\n  a: [1\n", "yaml:3: this is not YAML"),
        ("connections.json", '{\n"variables": {\n}', "json:3: this is not JSON"),
        ("connections.json", "[]", "json:1: the file holds no object"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(ConnectionsFileError, match=told):
        read(write(tmp_path, text, name=name), {})


def test_tests_may_stand_in_for_secrets_that_they_do_not_have(tmp_path: Path) -> None:
    body = read(write(tmp_path), {}, missing=lambda name: f"test-{name}")
    assert body["connections"]["shop"]["baseUrl"] == "https://test-SHOP_HOST/v2"


async def test_a_changed_secret_file_arrives_and_a_broken_file_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path)
    configuration = configured()
    source = FileSource(path, env={"SHOP_HOST": "x"}, every=0.01)
    task = asyncio.create_task(source.run(configuration.publish))
    await until(lambda: "shop" in configuration.current.connections)
    caplog.set_level(logging.INFO)
    (tmp_path / "keys" / "shop").unlink()
    await until(lambda: caplog.records)
    await asyncio.sleep(0.05)  # it is read again, several times
    (tmp_path / "keys" / "shop").write_text("another")
    await until(lambda: configuration.current.connection("shop").credentials[0].data["value"] == "another")
    messages = [record.message for record in caplog.records]
    assert len(messages) == 2
    assert "keys/shop cannot be read" in messages[0]
    assert "Read the changed connections file" in messages[1]
    task.cancel()
