"""Warnings about environment variables whose Secrets are missing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.oauth.memory_lookups import make
from tieline_api.credentials.secret_reader import SecretReader
from tieline_api.handlers import environment_config
from tieline_api.handlers.environment_config import update_config
from tieline_api.http.operation import Call
from tieline_api.schemas.environments import EnvironmentConfigUpdate
from tieline_api.views.activation_lookup import EnvironmentRef
from tieline_core.identity.names import CREDENTIAL_TYPE, EXPOSE_LABEL
from tieline_core.objects import Object


class Secrets:
    """The cache of Secrets, which has seen none, and the API server, which has one."""

    def __init__(self) -> None:
        self.cached: dict[str, Object] = {}

    def get(self, _namespace: str, name: str) -> Object | None:
        return self.cached.get(name)

    def observe(self, obj: Object) -> None:
        self.cached[obj["metadata"]["name"]] = obj

    async def list(self, *_: object, field_selector: str) -> list[Object]:
        if "metadata.name=new," not in field_selector:
            return []
        secret = {**make("Secret", "new"), "type": CREDENTIAL_TYPE, "data": {"url": "eA=="}}
        secret["metadata"]["resourceVersion"] = "1"
        secret["metadata"]["labels"] = {EXPOSE_LABEL: "true"}
        return [secret]


def variable(name: str, secret: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": "url"}}}


async def test_only_a_secret_that_is_missing_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    project, secrets = make("Project", "p", name="p"), Secrets()
    project["metadata"]["resourceVersion"] = "1"

    async def change(*_: object) -> Object:
        return project

    monkeypatch.setattr(
        environment_config, "environment_in_path", lambda _: EnvironmentRef(project=project, name="e", id="e")
    )
    monkeypatch.setattr(environment_config, "change_project", change)
    call = Call(
        platform=cast(
            Any,
            SimpleNamespace(
                cluster=SimpleNamespace(secrets=secrets),
                secret_reads=SecretReader(cast(Any, secrets), cast(Any, secrets)),
            ),
        ),
        organisation=cast(Any, SimpleNamespace(namespace="acme")),
        caller=cast(Any, SimpleNamespace(end_user=None)),
        path={"environment_id": "e"},
        query=None,
        body=EnvironmentConfigUpdate.model_validate(
            {"env": [variable("DB", "new"), variable("CACHE", "missing")]}
        ),
    )
    assert (await update_config(call)).warnings == (
        'The environment variable CACHE: there is no Secret "missing" of type tieline.dev/credential; create it',
    )
