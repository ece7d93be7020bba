"""What users have come back with, codes and verifiers: checked while nothing is written and nobody is asked yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tieline_api import errors
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_core.credentials.grant_request import (
    SecretTakenError,
    UnresolvedError,
    check_begun_with,
    check_callback,
    client_begun_with,
    oauth1_begun_for,
)
from tieline_core.credentials.linker import Lookups
from tieline_core.credentials.live_lookups import DelegatingDirectory
from tieline_core.credentials.resolver import resolve
from tieline_core.oauth.state_store import StateRefusedError, unknown_state
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import ConnectionObject
from tieline_protocol.oauth.token_client import MisconfiguredError, RefusedError, TokenError

Values = Mapping[str, Mapping[str, bytes]]
"""What is to be in Secrets, by their names."""


@dataclass(frozen=True, kw_only=True)
class AuthorizationResult:
    """What a user has come back with: an authorisation code, or a verifier of OAuth 1.0."""

    field: str
    values: Mapping[str, str]

    @property
    def about(self) -> str:
        return f"credential.data.{self.field}"

    @property
    def is_code(self) -> bool:
        return "code" in self.values


def authorization_result(given: rest.ConnectionCredential) -> AuthorizationResult | None:
    """What a credential in a request brings to exchange, if it brings anything."""
    data = given.credential.data if given.credential else None
    code, signed = (data.oauth2_code, data.oauth1) if data else (None, None)
    if code and (code.code or code.state):
        values = {"code": code.code or "", "state": code.state or ""}
        if code.callback:
            values["callback"] = code.callback
        return AuthorizationResult(field="oauth2Code", values=values)
    if signed and signed.state:
        values = {
            "state": signed.state,
            "oauthToken": signed.oauth_token or "",
            "oauthVerifier": signed.oauth_verifier or "",
        }
        return AuthorizationResult(field="oauth1", values=values)
    return None


@dataclass(kw_only=True)
class CodeChecks:
    """The checks of one request: each state may be in it once."""

    platform: Dependencies
    _states: set[str] = field(default_factory=set)

    async def check(
        self,
        given: Sequence[rest.ConnectionCredential],
        planned: ObjectView,
        secrets: Iterable[PlannedSecret],
        *,
        path: str,
        live: ConnectionObject | None = None,
    ) -> None:
        """ApiError 422 where a code that ``live`` does not have yet cannot be exchanged.

        ``planned`` is the connection as it shall be, its credentials in the order of ``given``; ``secrets`` are
        those that it will have then. What is wrong with state, client or auth scheme is found here; all that is
        left is the provider's answer.
        """
        lookups = await self._lookups(planned["metadata"]["namespace"], secrets)
        for index, one in enumerate(given):
            result, item = authorization_result(one), planned["spec"]["credentials"][index]
            if result is None or await self._is_stored(live, item["id"], result):
                continue
            self._check_given(result, field=f"{path}[{index}].{result.about}")
            try:
                await self._check(lookups, planned, item["id"], result)
            except TokenError as error:
                raise token_error(error, field=f"{path}[{index}]", about=result.about) from None

    async def _lookups(self, namespace: str, secrets: Iterable[PlannedSecret]) -> Lookups:
        stored, values = self.platform.lookups, {}
        for secret in secrets:
            before = await stored.secret(namespace, secret.base) if secret.base else None
            values[secret.name] = {**(before or {}), **secret.values}
        return _Planned(stored, values)

    def _check_given(self, result: AuthorizationResult, *, field: str) -> None:
        for name, value in result.values.items():
            if not value:
                what = "a code is" if result.is_code else "token and verifier are"
                raise errors.invalid(f"{field}.{name}", f"is required: {what} good with its state only")
        state = result.values["state"]
        if state in self._states:
            raise errors.invalid(f"{field}.state", "is given twice, and good for one credential only")
        self._states.add(state)

    async def _check(
        self, lookups: Lookups, planned: ObjectView, item_id: str, result: AuthorizationResult
    ) -> None:
        """TokenError where there is nothing to ask the provider with."""
        namespace = planned["metadata"]["namespace"]
        pending = await self.platform.oauth_states.peek(result.values["state"], namespace=namespace)
        owner = (planned["spec"].get("endUserRef") or {}).get("name")
        if pending.end_user and pending.end_user != owner:
            raise unknown_state()
        client = None
        if result.is_code:
            client = client_begun_with(lookups, planned, item_id, pending)
        else:
            oauth1_begun_for(lookups, planned, item_id, pending, token=result.values["oauthToken"])
        resolved = await resolve(lookups, planned, item_id, client=client)
        if resolved.problems:
            raise UnresolvedError(resolved.problems)
        check_begun_with(pending, resolved)
        check_callback(resolved, now=datetime.now(UTC))

    async def _is_stored(
        self, live: ConnectionObject | None, item_id: str, result: AuthorizationResult
    ) -> bool:
        """Whether this very thing is stored already: the request is repeated, and does no harm."""
        items = live["spec"].get("credentials") or () if live else ()
        reference = next((item.get("secretRef") for item in items if item["id"] == item_id), None)
        if live is None or not reference:
            return False
        stored = await self.platform.lookups.secret(live["metadata"]["namespace"], reference["name"]) or {}
        return all(stored.get(name, b"").decode("utf-8", "replace") == v for name, v in result.values.items())


class _Planned(DelegatingDirectory):
    """``Lookups`` that know values before they are stored."""

    def __init__(self, stored: Lookups, values: Values) -> None:
        super().__init__(stored)
        self._stored = stored
        self._values = values

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self._values.get(name) or await self._stored.secret(namespace, name)


def token_error(error: TokenError, *, field: str, about: str) -> errors.ApiError:
    """What a client is answered when no token came of a credential; ``errors`` as the credential's."""
    messages = [str(error)]
    match error:
        case StateRefusedError():
            about = f"{field}.{about}.state"
        case RefusedError():
            about = f"{field}.{about}"
        case SecretTakenError():
            return errors.conflict(str(error))
        case UnresolvedError():
            about, messages = f"{field}.authSchemeConfig", [problem.message for problem in error.problems]
        case MisconfiguredError():
            about = f"{field}.authSchemeConfig"
        case _:
            return errors.ApiError(
                502,
                "provider_unreachable",
                str(error),
                fields=[errors.FieldError(f"{field}.{about}", str(error))],
                extra={"errors": messages},
                headers={"Retry-After": "10"},
            )
    found = errors.invalid(about, " ".join(messages))
    found.extra["errors"] = messages
    return found


def combined_error(failures: Sequence[errors.ApiError], **more: Any) -> errors.ApiError:
    """One answer for several failures: that of the first that waiting alone does not mend, with all fields.

    ``more`` are fields about what was kept all the same.
    """
    first = next((one for one in failures if one.status < 500), failures[0])
    messages = [message for one in failures for message in one.extra.get("errors", [one.message])]
    return errors.ApiError(
        first.status,
        first.code,
        first.message,
        fields=[field for one in failures for field in one.fields],
        details=" ".join(messages) if len(messages) > 1 else None,
        extra={"errors": messages, **more} if more or first.extra else None,
        headers=first.headers,
    )
