"""Limits of Systems and Connections by REST: given, inherited by each connection, changed and taken away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import API_KEY, connect, make_system, make_template, stored
from tests.integration.api.pods import account_token, ask

pytestmark = pytest.mark.cluster

SYSTEM = {
    "name": "Limited",
    "domain": "shop.example",
    "templateBaseUrl": "https://api.shop.example",
    "authSchemeConfigs": [API_KEY],
}
LIMITS = {"concurrent": 10, "requests": 100, "per": "1m"}


def _told(client: Client, token: str, wanted: dict[str, Any] | None) -> dict[str, Any]:
    """What a pod is told of its connection, once its limits are ``wanted``."""

    def found() -> dict[str, Any] | None:
        connection: dict[str, Any] = ask(client, token).json["connections"]["shop"]
        limits = {name: value for name, value in (connection.get("limits") or {}).items() if name != "pods"}
        return connection if limits == (wanted or {}) else None

    return eventually(f"the limits {wanted}", found)


def test_limits_of_a_system_hold_for_each_connection_until_it_has_its_own(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    system = client.ok("POST", "/systems", {**SYSTEM, "limits": LIMITS}, status=201)
    assert client.ok("GET", f"/systems/{system['id']}")["limits"] == LIMITS
    places = [make_template(client, system=system["id"]) for _ in range(2)]
    connections = [
        connect(client, template, "s3cr3t", name=f"C{number}") for number, (_, template) in enumerate(places)
    ]
    tokens = [account_token(kubectl, org, project) for project, _ in places]
    told = [_told(client, token, LIMITS) for token in tokens]
    # Each has its own: they are counted by the connection.
    assert len({one["id"] for one in told}) == 2
    assert [one["limits"]["pods"] for one in told] == [1, 1]

    own = {"concurrent": 2}
    path = f"/connections/{connections[0]['id']}"
    assert client.ok("PUT", path, {"limits": own})["limits"] == own
    _told(client, tokens[0], own)
    _told(client, tokens[1], LIMITS)

    # Without its own, those of the system hold again; without any, it has none.
    assert "limits" not in client.ok("PUT", path, {"limits": {}})
    assert "limits" not in stored(kubectl, org, "connection", connections[0]["id"])["spec"]
    _told(client, tokens[0], LIMITS)
    assert "limits" not in client("PUT", f"/systems/{system['id']}", {"limits": {}}).json
    for token in tokens:
        assert "limits" not in _told(client, token, None)


def test_a_connection_can_be_created_with_limits_that_another_change_leaves(client: Client) -> None:
    _, template = make_template(client)
    created = connect(client, template, "s3cr3t", limits={"requests": 5, "per": "1s"})
    path = f"/connections/{created['id']}"
    assert client.ok("GET", path)["limits"] == {"requests": 5, "per": "1s"}
    assert client.ok("PUT", path, {"name": "Another"})["limits"] == {"requests": 5, "per": "1s"}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"concurrent": 0}, "greater than or equal to 1"),
        ({"concurrent": -1}, "greater than or equal to 1"),
        ({"concurrent": 10_001}, "less than or equal to 10000"),
        ({"concurrent": 1.5}, "integer"),
        ({"requests": 10**18, "per": "1s"}, "less than or equal to 1000000"),
        ({"requests": 10**30, "per": "1s"}, "exceeded maximum size"),
        ({"requests": 5}, "need each other"),
        ({"per": "1s"}, "need each other"),
        ({"requests": 5, "per": "0s"}, "must be a whole number with s, m or h, such as 1s or 10m"),
        ({"requests": 5, "per": "25h"}, "at most 24h"),
        ({"requests": 5, "per": "1s\n"}, "must be a whole number with s, m or h, such as 1s or 10m"),
        ({"requests": 5, "per": "\u0661s"}, "must be a whole number with s, m or h, such as 1s or 10m"),
        ({"requests": 5, "per": "1d"}, "must be a whole number with s, m or h, such as 1s or 10m"),
        ({"requests": 5, "per": "1 minute"}, "such as 1s or 10m, not '1 minute'"),
        ({"requests": 5, "per": 60}, "string"),
        ([], "object"),
        ("100/m", "object"),
    ],
)
def test_limits_that_mean_nothing_are_refused_with_the_field(client: Client, limits: Any, words: str) -> None:
    body = {**SYSTEM, "limits": limits}
    system = make_system(client)
    _, template = make_template(client, system=system["id"])
    connection = connect(client, template, "s3cr3t")
    for method, path, content in (
        ("POST", "/systems", body),
        ("PUT", f"/systems/{system['id']}", {"limits": limits}),
        ("PUT", f"/connections/{connection['id']}", {"limits": limits}),
    ):
        refused = client(method, path, content)
        assert refused.status == 422, refused.raw
        assert all(field.startswith("limits") for field in refused.fields), refused.raw
        assert words in refused.json["fields"][0]["message"], refused.raw
    assert "limits" not in client.ok("GET", f"/connections/{connection['id']}")


def test_limits_of_another_organisation_are_out_of_reach(client: Client, neighbour: Client) -> None:
    system = make_system(client)
    _, template = make_template(client, system=system["id"])
    connection = connect(client, template, "s3cr3t", limits=LIMITS)
    for path in (f"/systems/{system['id']}", f"/connections/{connection['id']}"):
        assert neighbour("PUT", path, {"limits": {"requests": 1, "per": "24h"}}).status == 404
    assert client.ok("GET", f"/connections/{connection['id']}")["limits"] == LIMITS


def test_of_two_that_change_limits_at_once_with_if_match_one_is_told(client: Client) -> None:
    _, template = make_template(client)
    path = f"/connections/{connect(client, template, 's3cr3t')['id']}"
    tag = client("GET", path).headers["ETag"]
    with ThreadPoolExecutor(2) as both:
        answers = list(
            both.map(
                lambda number: client("PUT", path, {"limits": {"concurrent": number}}, **{"If-Match": tag}),
                (3, 4),
            )
        )
    assert sorted(answer.status for answer in answers) == [200, 412]
    (kept,) = [answer.json["limits"] for answer in answers if answer.status == 200]
    assert client.ok("GET", path)["limits"] == kept


def test_a_pod_that_claims_nonsense_is_refused_and_harms_nobody(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    connection = connect(client, template, "s3cr3t", limits=LIMITS)
    token = account_token(kubectl, org, project)
    _told(client, token, LIMITS)
    pod = Client(client.url, token, client.organisation)
    path = f"/internal/v1/connections/{connection['id']}/limits"
    for nonsense in (
        {"slots": -1},
        {"slots": 10**9},
        {"inUse": "many"},
        {"usualSeconds": -0.1},
        {"usualSeconds": "long"},
        {"held": True},
        {"pauseSeconds": None},
        {"returned": [True]},
        {"returned": [1.0] * 1001},
        {"pod": "p" * 65},
    ):
        answer = pod.at(path, method="POST", body={"pod": "p", **nonsense})
        assert answer.status == 422, (nonsense, answer.raw)
        assert "must be" in answer.json["message"]
    assert pod.at(path, method="POST", body=[]).status == 422
    good = pod.at(path, method="POST", body={"pod": "p", "waiting": 1, "slots": 1, "usualSeconds": 1e300})
    assert (good.status, good.json["permits"], len(good.json["slots"])) == (200, 1, 1)
