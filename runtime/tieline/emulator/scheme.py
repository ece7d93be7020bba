"""An OAuth 2.0 scheme of a System, read from the provider's side: which requests it knows, and what it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from tieline.emulator.facts import ErrorFacts, ErrorsAt, Given, Pkce, ProviderFacts
from tieline.emulator.templates import put
from tieline.emulator.urls import Endpoint

Raw = Mapping[str, Any]


def section(content: Raw, *names: str) -> Raw:
    """A mapping in a mapping; empty where there is none."""
    for name in names:
        content = content.get(name) or {}
    return content


@dataclass(frozen=True)
class OAuthScheme:
    """The scheme, with what the provider documents beyond it."""

    raw: Raw
    """``oauth2`` of the auth scheme."""
    facts: ProviderFacts

    # URLs

    @cached_property
    def authorise(self) -> Endpoint | None:
        url = self.raw.get("authorizeUrl")
        return Endpoint.of(url) if url else None

    @cached_property
    def token(self) -> Endpoint:
        return Endpoint.of(self.raw["tokenUrl"])

    @cached_property
    def refresh(self) -> Endpoint:
        return Endpoint.of(self.raw.get("refreshUrl") or self.raw["tokenUrl"])

    @cached_property
    def exchange(self) -> Endpoint | None:
        """Where short-lived tokens become long-lived ones."""
        url = self.long_lived.get("url")
        return Endpoint.of(url) if url else None

    @property
    def endpoints(self) -> list[Endpoint]:
        found = [self.authorise, self.token, self.refresh, self.exchange]
        return [one for one in found if one is not None]

    # Sections

    @property
    def grant(self) -> str:
        return str(section(self.raw, "grant").get("type") or "authorizationCode")

    @property
    def authorization(self) -> Raw:
        return section(self.raw, "authorization")

    @property
    def request(self) -> Raw:
        return section(self.raw, "tokenRequest")

    @property
    def answer(self) -> Raw:
        return section(self.raw, "tokenAnswer")

    @property
    def long_lived(self) -> Raw:
        return section(self.raw, "tokenRequest", "longLived")

    @property
    def refreshing(self) -> Raw:
        return section(self.raw, "refresh")

    # The authorise page

    @property
    def client_id_at_authorise(self) -> str:
        return str(self.authorization.get("clientIdParameter") or "client_id")

    @property
    def scope_parameters(self) -> list[str]:
        """The parameters with scopes."""
        first = str(self.authorization.get("scopeParameter") or "scope")
        return list(dict.fromkeys([first, *section(self.authorization, "scopeParameters")]))

    @property
    def separator(self) -> str:
        return str(self.raw.get("scopeSeparator") or " ")

    @cached_property
    def scopes(self) -> frozenset[str]:
        """Those that exist."""
        named = self.facts.scopes
        if named is not None:
            return frozenset(named)
        listed = [one["name"] for one in self.raw.get("scopes") or ()]
        return frozenset([*listed, *(self.raw.get("defaultScopes") or ())])

    @property
    def prompts(self) -> frozenset[str]:
        named = self.facts.prompts
        if named is not None:
            return frozenset(named)
        sent = dict(parse_qsl(self.raw.get("additionalAuthorizeParams") or "")).get("prompt", "").split()
        sent += str(self.authorization.get("prompt") or "").split()
        return frozenset([*(self.authorization.get("prompts") or ()), *sent])

    @property
    def pkce(self) -> Pkce:
        if self.facts.pkce is not None:
            return self.facts.pkce
        return Pkce.REQUIRED if self.raw.get("pkce") else Pkce.REFUSED

    @cached_property
    def parameters(self) -> frozenset[str]:
        """All that an authorise request may have."""
        known = {
            self.client_id_at_authorise,
            "redirect_uri",
            "response_type",
            "state",
            *self.scope_parameters,
        }
        if self.pkce is not Pkce.REFUSED:
            known |= {"code_challenge", "code_challenge_method"}
        if self.prompts:
            known.add("prompt")
        known -= set(self.authorization.get("omit") or ())
        sent = [self.raw.get("additionalAuthorizeParams"), self.authorization.get("offlineParameters")]
        names = [name for text in sent for name, _ in parse_qsl(text or "", keep_blank_values=True)]
        return frozenset([*known, *names, *self.facts.parameters, *self.facts.parameters_required])

    @property
    def errors_on_page(self) -> bool:
        return self.facts.errors_at is ErrorsAt.PAGE

    @property
    def code_at_callback(self) -> str:
        return str(self.authorization.get("codeParameter") or "code")

    @cached_property
    def denied(self) -> Mapping[str, str]:
        if self.facts.denied is not None:
            return self.facts.denied
        named = self.authorization.get("errorParameters") or ()
        return {"error": "access_denied"} if not named else {str(named[0]): "access_denied"}

    # The token endpoint

    @property
    def clients(self) -> frozenset[str]:
        """Ways in which clients authenticate."""
        named = self.facts.client or (self.raw.get("clientAuthentication") or "header",)
        return frozenset(map(str, named))

    @property
    def formats(self) -> frozenset[str]:
        return frozenset(map(str, self.facts.formats or (self.request.get("format") or "form",)))

    @property
    def client_id(self) -> str:
        return str(self.request.get("clientIdParameter") or "client_id")

    @property
    def client_secret(self) -> str:
        return str(self.request.get("clientSecretParameter") or "client_secret")

    @property
    def code(self) -> str:
        return str(self.request.get("codeParameter") or "code")

    def grant_type(self, name: str, default: str) -> str:
        return str(section(self.request, "grantTypes").get(name) or default)

    @property
    def omitted(self) -> frozenset[str]:
        """Parameters of RFC 6749 that the provider does not know."""
        return frozenset(self.request.get("omit") or ())

    @property
    def omitted_at_exchange(self) -> frozenset[str]:
        """Parameters that the exchange for a long-lived token does not have."""
        return frozenset(self.long_lived.get("omit") or ())

    @cached_property
    def token_parameters(self) -> frozenset[str]:
        """All that a token request may have."""
        texts = [
            self.raw.get("additionalTokenParams"),
            self.request.get("codeParameters"),
            self.request.get("refreshParameters"),
        ]
        sent = [name for text in texts for name, _ in parse_qsl(text or "", keep_blank_values=True)]
        known = {"grant_type", self.code, "redirect_uri", "scope", self.client_id, self.client_secret}
        known |= {"refresh_token", self.refresh_parameter, "username", "password", *sent}
        if self.pkce is not Pkce.REFUSED:
            known.add("code_verifier")
        if self.long_lived:
            known.add(str(self.long_lived.get("tokenParameter") or "access_token"))
        return frozenset(known - self.omitted)

    @property
    def token_headers(self) -> Mapping[str, str]:
        return {**section(self.request, "headers"), **self.facts.token_headers}

    @property
    def refreshes_access_tokens(self) -> bool:
        return self.refreshing.get("token") == "accessToken"

    @property
    def refresh_parameter(self) -> str:
        default = "access_token" if self.refreshes_access_tokens else "refresh_token"
        return str(self.refreshing.get("tokenParameter") or default)

    @property
    def refresh_by_get(self) -> bool:
        return self.refreshing.get("method") == "GET"

    @property
    def expires_in(self) -> int | None:
        return None if self.facts.expires_in == "none" else self.facts.expires_in

    @cached_property
    def refresh_tokens_given(self) -> Given:
        """When there is a refresh token."""
        if self.facts.refresh_tokens.given is not None:
            return self.facts.refresh_tokens.given
        offline = self.authorization.get("offlineAccess")
        if offline == "scope" or (offline is None and self.facts.refresh_tokens.scope in self.scopes):
            return Given.SCOPE
        if offline == "parameters":
            return Given.OFFLINE
        return Given.NEVER if self.refreshes_access_tokens else Given.ALWAYS

    @cached_property
    def offline_parameters(self) -> dict[str, str]:
        """Those that ask for a refresh token."""
        return dict(parse_qsl(str(self.authorization.get("offlineParameters") or "")))

    @property
    def scopes_joined_by(self) -> str:
        named = self.facts.scope_separator
        return named if named is not None else str(self.answer.get("scopeSeparator") or " ")

    @cached_property
    def answer_template(self) -> Any:
        """The answer to a code, as documented or, failing that, by the auth scheme."""
        documented = self.facts.token_answer
        if documented is None:
            return self._made_answer()
        return documented if self.is_documented else _merged(self._made_answer(), documented)

    @cached_property
    def refresh_template(self) -> Any:
        found = self.facts.refresh_answer
        return found if found is not None else self.answer_template

    @property
    def is_documented(self) -> bool:
        """Whether the whole answer is the provider's own, not one that is made from the auth scheme."""
        return "$accessToken" in json.dumps(self.facts.token_answer)

    def _made_answer(self) -> Any:
        made: Any = {"token_type": "Bearer"}
        made = put(made, self.answer.get("accessToken") or "access_token", "$accessToken")
        made = put(made, self.answer.get("refreshToken") or "refresh_token", "$refreshToken")
        made = put(made, self.answer.get("scope") or "scope", "$scope")
        unit = str(self.answer.get("expiresUnit") or "seconds")
        if unit != "jwt" and not self.answer.get("expiresAfter"):
            made = put(made, self.answer.get("expiresIn") or "expires_in", _EXPIRIES[unit])
        made = self._with_success(made)
        for kept in self.answer.get("keep") or ():
            name = str(kept.get("variable") or kept.get("as"))
            made = put(made, kept["path"], f"${name}")
        return made

    def _with_success(self, made: Any) -> Any:
        success = section(self.answer, "success")
        if not success.get("path"):
            return made
        wanted = success.get("equals") or next(iter(success.get("in") or ()), "true")
        return put(made, success["path"], _SCALARS.get(wanted, wanted))

    @property
    def issues_jwts(self) -> bool:
        """Whether access tokens are JWTs."""
        return self.answer.get("expiresUnit") == "jwt"

    @cached_property
    def error(self) -> ErrorFacts:
        """The form of errors."""
        if self.facts.token_error is not None:
            return self.facts.token_error
        if not self.answer:
            return ErrorFacts()
        body = put({}, self.answer.get("error") or "error", "$error")
        body = put(body, self.answer.get("errorDescription") or "error_description", "$description")
        success = section(self.answer, "success")
        if success.get("path"):
            body = put(body, success["path"], False)
        return ErrorFacts(status=200 if success else 400, body=body)

    # The API

    @property
    def use(self) -> Raw:
        return section(self.raw, "token")

    def presented(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """The access token of a request to the API; None where it is not at the documented place."""
        if self.use.get("in") == "query":
            return query.get(str(self.use.get("name") or "access_token"))
        name = str(self.use.get("name") or "Authorization")
        prefix = self.use.get("prefix")
        if prefix is None:
            prefix = "Bearer " if name.lower() == "authorization" else ""
        value = headers.get(name)
        if value is None or not value.startswith(str(prefix)):
            return None
        return value[len(str(prefix)) :]


def _merged(base: Any, more: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return {**base, **{name: _merged(base.get(name), value) for name, value in more.items()}}


_EXPIRIES = {
    "seconds": "$expiresIn",
    "milliseconds": "$expiresInMs",
    "epochSeconds": "$expiresAt",
    "epochMilliseconds": "$expiresAtMs",
    "iso8601": "$expiresAtIso",
}
_SCALARS: Mapping[str, Any] = {"true": True, "false": False, "0": 0}
