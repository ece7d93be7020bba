"""Copies are made whole or not at all."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.use_cases.template_copies import copy_templates, new_objects
from tieline_core.kubernetes import NotFound, Unavailable

PROJECT = {"metadata": {"name": "orders", "namespace": "acme"}}


def template(name: str, **more: Any) -> dict[str, Any]:
    spec = {"name": name, "projectRef": {"name": "other"}, "environment": "production", **more}
    return {"metadata": {"name": f"t-{name}"}, "spec": {"systemRef": {"name": "shop"}, **spec}}


class Writer:
    """Creates objects until ``fails_at``, and deletes them."""

    def __init__(self, fails_at: int = -1) -> None:
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self._fails_at = fails_at

    async def create(self, _cache: Any, _namespace: str, _identifier: str, spec: dict[str, Any]) -> Any:
        if len(self.created) == self._fails_at:
            raise Unavailable("away")
        self.created.append(spec)
        return {"metadata": {"name": spec["name"]}, "spec": spec}

    async def delete(self, _cache: Any, obj: dict[str, Any]) -> None:
        self.deleted.append(obj["metadata"]["name"])
        if obj["metadata"]["name"] == "a":
            raise NotFound("gone")


def platform_of(writer: Writer, *there: dict[str, Any]) -> Dependencies:
    cluster = SimpleNamespace(templates=None, referring=lambda *_: list(there))
    return cast(Dependencies, SimpleNamespace(cluster=cluster, writer=writer))


async def copied(platform: Dependencies, *templates: dict[str, Any]) -> tuple[str, ...]:
    async with new_objects(platform) as made:
        return await copy_templates(platform, templates, project=PROJECT, environment="staging", made=made)


async def test_a_copy_has_what_belongs_to_a_template_and_its_own_place() -> None:
    writer = Writer()
    given = template("shop", connectionRef={"name": "c"}, dynamic=False, authSchemeConfigIds=["key"])
    assert await copied(platform_of(writer), given) == ()
    assert writer.created == [
        {
            "name": "shop",
            "systemRef": {"name": "shop"},
            "dynamic": False,
            "connectionRef": {"name": "c"},
            "authSchemeConfigIds": ["key"],
            "projectRef": {"name": "orders"},
            "environment": "staging",
        }
    ]
    assert writer.deleted == []


async def test_a_name_that_is_there_is_kept_and_told() -> None:
    writer = Writer()
    (warning,) = await copied(platform_of(writer, template("shop")), template("shop"), template("crm"))
    assert '"shop"' in warning
    assert [one["name"] for one in writer.created] == ["crm"]


async def test_what_was_made_is_taken_back_when_a_part_fails() -> None:
    writer = Writer(fails_at=3)
    with pytest.raises(Unavailable):
        await copied(platform_of(writer), *(template(name) for name in "abcd"))
    assert writer.deleted == ["c", "b", "a"], "the newest first, also after one that is gone already"


async def test_what_cannot_be_taken_back_does_not_hide_why(caplog: pytest.LogCaptureFixture) -> None:
    undone: list[str] = []

    async def refused() -> None:
        raise errors.conflict("somebody else's by now")

    async def first() -> None:
        undone.append("first")

    async def failing() -> None:
        async with new_objects(platform_of(Writer())) as made:
            made.on_failure(first)
            made.on_failure(refused)
            raise Unavailable("away")

    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await failing()
    assert undone == ["first"]
    assert "somebody else's by now" in caplog.text
