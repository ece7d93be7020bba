"""Nobody learns which organisations there are: not by words, not by the case of an id, and not by time."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from tieline_api.audit.log import AuditLog
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.http.dispatcher import Dispatcher
from tieline_core.identity.ids import new_id, parse_id
from tieline_core.kubernetes import Resource

THEIRS = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OPERATION = SimpleNamespace(
    id="putSystem",
    method="GET",
    proxies=False,
    own_protocol=False,
    key_as_bearer=False,
    permissions=(Permission("get", "systems"), Permission("patch", "systems")),
)


class Reviews:
    """Kubernetes, which lets ``eve`` do nothing anywhere and ``root`` everything, and takes its time."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, _resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        spec = review["spec"]
        self.asked.append("{verb} {resource}".format(**spec["resourceAttributes"]))
        await asyncio.sleep(0.002)
        return {"status": {"allowed": spec["user"] == "root"}}


class Cluster:
    """One organisation."""

    def require_sync(self) -> None:
        pass

    def organisation(self, identifier: str) -> Organisation | None:
        return Organisation(id=identifier, namespace="acme") if identifier == THEIRS else None


class Api:
    """A dispatcher whose caller a test names."""

    def __init__(self, user: str, *, organisations: frozenset[str] | None = None) -> None:
        self.reviews = Reviews()
        caller = Caller(username=user, organisations=organisations)

        async def authenticate(_headers: Any, **_options: Any) -> Caller:
            return caller

        platform = SimpleNamespace(
            authentication=SimpleNamespace(caller=authenticate),
            rates=SimpleNamespace(hit=lambda _caller: None),
            cluster=Cluster(),
            settings=SimpleNamespace(trusted_proxies=()),
            audit=AuditLog(Mock()),
            access=Access(self.reviews),  # type: ignore[arg-type]
        )
        self._dispatcher = Dispatcher(platform)  # type: ignore[arg-type]

    async def refused(self, organisation: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        """The error for an organisation's id as it stands in the path."""
        request: web.Request = make_mocked_request("GET", "/", match_info={"organisation_id": organisation})
        with pytest.raises(ApiError) as caught:
            await self._dispatcher.run(OPERATION, request)  # type: ignore[arg-type]
        return caught.value.status, caught.value.body(), caught.value.headers


def _mixed(text: str) -> str:
    return "".join(letter.lower() if index % 2 else letter for index, letter in enumerate(text))


@pytest.mark.parametrize("form", [str.upper, str.lower, _mixed])
async def test_one_that_there_is_is_answered_as_one_that_there_is_not(form: Any) -> None:
    unknown, there, absent = new_id(), Api("eve"), Api("eve")
    known = await there.refused(form(THEIRS))
    missing = await absent.refused(form(unknown))
    assert known[0] == 404
    assert str(known).replace(THEIRS, unknown) == str(missing)
    assert there.reviews.asked == absent.reviews.asked
    assert len(there.reviews.asked) == 3
    # And the second time as well, when answers are remembered.
    await there.refused(form(THEIRS))
    await absent.refused(form(unknown))
    assert len(there.reviews.asked) == len(absent.reviews.asked) == 3


async def test_a_token_for_certain_organisations_asks_about_no_other() -> None:
    limited = Api("root", organisations=frozenset({new_id()}))
    assert (await limited.refused(THEIRS))[0] == 404
    assert (await limited.refused(new_id()))[0] == 404
    assert limited.reviews.asked == []


async def test_who_may_do_everything_everywhere_is_told_that_there_is_none() -> None:
    assert (await Api("root").refused(new_id()))[0] == 404


@pytest.mark.parametrize(
    "text", ["", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV\n", "01ARZ3NDEKTſV4RRFFQ69G5FAV", "8" * 26]
)
async def test_what_is_no_id_is_not_found(text: str) -> None:
    assert parse_id(text) is None
    assert (await Api("eve").refused(text))[0] == 404


async def test_an_operation_whose_path_names_no_organisation_runs_only_where_it_needs_no_permission() -> None:
    """A row with a mistake in its path is an error, and never open to everybody."""
    request = make_mocked_request("GET", "/")
    with pytest.raises(LookupError, match="putSystem"):
        await Api("root")._dispatcher.run(OPERATION, request)  # type: ignore[arg-type]


async def test_the_time_is_that_of_the_same_questions() -> None:
    """Printed, not asserted: what is asserted is what is asked (above)."""

    async def milliseconds(organisation: str) -> float:
        api, began = Api("eve"), time.perf_counter()
        await api.refused(organisation)
        return (time.perf_counter() - began) * 1000

    known = median([await milliseconds(THEIRS) for _ in range(15)])
    unknown = median([await milliseconds(new_id()) for _ in range(15)])
    print(f"404 for a stranger: {known:.2f} ms where there is one, {unknown:.2f} ms where there is none")
