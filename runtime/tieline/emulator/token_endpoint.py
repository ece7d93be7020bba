"""The token endpoint: which requests it refuses, and what it answers in the provider's form."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

from tieline.emulator.authorisation import Client
from tieline.emulator.facts import Pkce
from tieline.emulator.grants import Code, Grant, Grants, Token
from tieline.emulator.messages import Asked, Reply
from tieline.emulator.scheme import OAuthScheme
from tieline.emulator.templates import filled


class TokenRefusedError(Exception):
    """A request that gets no token."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description


@dataclass
class TokenEndpoint:
    """Issues tokens of one provider."""

    scheme: OAuthScheme
    client: Client
    grants: Grants
    user: tuple[str, str] = ("", "")
    """Name and password of the account's user."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """For templates: the samples of inputs and variables."""

    def serve(self, asked: Asked, tenant: Mapping[str, str]) -> Reply:
        """The answer to a request."""
        try:
            fields = self._fields(asked)
            reply = self._issue(fields.get("grant_type", ""), fields, tenant)
        except TokenRefusedError as refused:
            reply = self._refusal(refused)
        if self.scheme.facts.form_unless_accepted and "application/json" not in asked.headers.get(
            "Accept", ""
        ):
            return Reply.form(reply.content, status=reply.status)
        return reply

    def _refusal(self, refused: TokenRefusedError) -> Reply:
        form, named = self.scheme.error, self.scheme.facts.error_codes
        values = {
            **self.values,
            "error": named.get(refused.code, refused.code),
            "description": refused.description,
        }
        return Reply.of(filled(form.body, values), status=form.status, headers=form.headers)

    # Reading

    def _fields(self, asked: Asked) -> dict[str, str]:
        for name, value in self.scheme.token_headers.items():
            sent = asked.headers.get(name)
            if sent is None or (value and sent != value):
                raise TokenRefusedError("invalid_request", f"the header {name} must be {value or 'set'}")
        fields = self._body(asked)
        if unknown := sorted(fields.keys() - self.scheme.token_parameters):
            raise TokenRefusedError("invalid_request", f"unknown parameter: {unknown[0]}")
        self._authenticate(asked, fields)
        return fields

    def _body(self, asked: Asked) -> dict[str, str]:
        formats = self.scheme.formats
        if asked.method == "GET":
            is_refresh = self.scheme.refresh_by_get and asked.url.path == self.scheme.refresh.path
            is_exchange = (
                self.scheme.exchange is not None and self.scheme.exchange.match(asked.url) is not None
            )
            if "query" not in formats and not is_refresh and not is_exchange:
                raise TokenRefusedError("invalid_request", "use POST")
            return dict(asked.url.query)
        if asked.method != "POST":
            raise TokenRefusedError("invalid_request", "use POST")
        if asked.content_type == "application/json" and "json" in formats:
            content = asked.json
            if not isinstance(content, dict):
                raise TokenRefusedError("invalid_request", "the body is no JSON object")
            return {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in content.items()
            }
        if asked.content_type == "application/x-www-form-urlencoded" and "form" in formats:
            if len(asked.form) != len(set(asked.form)):
                raise TokenRefusedError("invalid_request", "a parameter is there twice")
            return dict(asked.form)
        raise TokenRefusedError("invalid_request", f"the body must be {' or '.join(sorted(formats))}")

    def _authenticate(self, asked: Asked, fields: Mapping[str, str]) -> None:
        ways = self.scheme.clients
        in_body = (fields.get(self.scheme.client_id), fields.get(self.scheme.client_secret))
        if self._is_exchange(fields) and self.scheme.client_id in self.scheme.omitted_at_exchange:
            in_body = (self.client.id, in_body[1])
        if asked.basic is not None:
            if in_body[1] is not None and "both" not in ways:
                raise TokenRefusedError("invalid_request", "the client authenticates in header and body")
            self._check(("header", "both"), *(_decoded(one) for one in asked.basic))
            return
        if in_body[1] is None:
            if "none" in ways and in_body[0] == self.client.id:
                return
            raise TokenRefusedError("invalid_client", "the client does not authenticate")
        self._check(("body",), in_body[0] or "", in_body[1])

    def _check(self, ways: tuple[str, ...], name: str, secret: str) -> None:
        if self.scheme.clients.isdisjoint(ways):
            raise TokenRefusedError(
                "invalid_client", f"the client must authenticate by {min(self.scheme.clients)}"
            )
        same = hmac.compare_digest(secret.encode(), self.client.secret.encode())
        if name != self.client.id or not same:
            raise TokenRefusedError("invalid_client", "client id or secret is wrong")

    # Granting

    def _issue(self, grant_type: str, fields: Mapping[str, str], tenant: Mapping[str, str]) -> Reply:
        scheme, omits = self.scheme, "grant_type" in self.scheme.omitted
        if self._is_exchange(fields):
            return self._exchange(fields)
        if grant_type == scheme.grant_type("authorizationCode", "authorization_code") or (
            omits and scheme.code in fields
        ):
            return self._from_code(fields, tenant)
        if grant_type == scheme.grant_type("refresh", "refresh_token") or (
            omits and scheme.refresh_parameter in fields
        ):
            return self._refresh(fields, tenant)
        if grant_type == scheme.grant_type("clientCredentials", "client_credentials"):
            return self._direct("clientCredentials", fields, tenant)
        if grant_type == scheme.grant_type("password", "password"):
            return self._direct("password", fields, tenant)
        raise TokenRefusedError("unsupported_grant_type", f"unknown grant_type: {grant_type[:60]}")

    def _from_code(self, fields: Mapping[str, str], tenant: Mapping[str, str]) -> Reply:
        code = self.grants.codes.get(fields.get(self.scheme.code, ""))
        if code is None:
            raise TokenRefusedError("invalid_grant", "this code does not exist")
        if code.used:
            code.grant.revoked = True  # RFC 6749, section 4.1.2
            raise TokenRefusedError("invalid_grant", "this code was used before")
        if self.grants.clock.now() >= code.issued_at + self.scheme.facts.code_seconds:
            raise TokenRefusedError("invalid_grant", "this code has expired")
        self._check_tenant(code.grant, tenant)
        if "redirect_uri" not in self.scheme.omitted and fields.get("redirect_uri") != code.redirect_uri:
            raise TokenRefusedError("invalid_grant", "redirect_uri is not that of the authorise request")
        self._check_verifier(code, fields)
        code.used = True
        refresh = self.grants.new_refresh(code.grant) if code.grant.offline else None
        return self._tokens(code.grant, refresh, self.scheme.answer_template)

    def _check_verifier(self, code: Code, fields: Mapping[str, str]) -> None:
        if self.scheme.pkce is Pkce.REFUSED:
            return
        verifier = fields.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if code.challenge != (digest if verifier else ""):
            raise TokenRefusedError("invalid_grant", "code_verifier does not fit code_challenge")

    @staticmethod
    def _check_tenant(grant: Grant, tenant: Mapping[str, str]) -> None:
        if any(tenant.get(name, value) != value for name, value in grant.tenant.items()):
            raise TokenRefusedError("invalid_grant", "it belongs to another account")

    def _refresh(self, fields: Mapping[str, str], tenant: Mapping[str, str]) -> Reply:
        facts = self.scheme.facts
        known = self.grants.access if self.scheme.refreshes_access_tokens else self.grants.refresh
        token = known.get(fields.get(self.scheme.refresh_parameter, ""))
        if token is None or not self._may_refresh(token):
            raise TokenRefusedError(facts.refresh_error or "invalid_grant", "the refresh token is not valid")
        self._check_tenant(token.grant, tenant)
        newest = self.grants.newest_access(token.grant)
        if (
            newest is not None
            and self.grants.clock.now() < newest.issued_at + facts.refresh_tokens.earliest_seconds
        ):
            raise TokenRefusedError("invalid_request", "the access token is too young for a refresh")
        fresh = None
        if facts.refresh_tokens.rotates and not self.scheme.refreshes_access_tokens:
            if token.expires_at is None:
                token.expires_at = self.grants.clock.now() + facts.refresh_tokens.grace_seconds
            fresh = self.grants.new_refresh(token.grant)
        return self._tokens(token.grant, fresh, self.scheme.refresh_template)

    def _may_refresh(self, token: Token) -> bool:
        if self.scheme.refreshes_access_tokens:
            return not token.grant.revoked
        return self.grants.is_live(token)

    def _is_exchange(self, fields: Mapping[str, str]) -> bool:
        wanted = self.scheme.long_lived.get("grantType")
        return bool(wanted) and fields.get("grant_type") == wanted

    def _exchange(self, fields: Mapping[str, str]) -> Reply:
        name = str(self.scheme.long_lived.get("tokenParameter") or "access_token")
        token = self.grants.access.get(fields.get(name, ""))
        if token is None or not self.grants.is_live(token):
            raise TokenRefusedError("invalid_grant", "the short-lived token is not valid")
        return self._tokens(token.grant, None, self.scheme.refresh_template)

    def _direct(self, grant: str, fields: Mapping[str, str], tenant: Mapping[str, str]) -> Reply:
        if self.scheme.grant != grant:
            raise TokenRefusedError("unauthorized_client", "this grant is not allowed")
        asked = tuple(one for one in fields.get("scope", "").split(self.scheme.separator) if one)
        unknown = [one for one in asked if one not in self.scheme.scopes]
        if unknown and "*" not in self.scheme.scopes:
            raise TokenRefusedError("invalid_scope", f"unknown scope: {unknown[0]}")
        if grant == "password" and (fields.get("username"), fields.get("password")) != self.user:
            raise TokenRefusedError("invalid_grant", "name or password is wrong")
        made = Grant(tenant, asked, offline=grant == "password")
        refresh = self.grants.new_refresh(made) if made.offline else None
        return self._tokens(made, refresh, self.scheme.answer_template)

    def _tokens(self, grant: Grant, refresh: Token | None, template: Any) -> Reply:
        lifetime = self.scheme.expires_in
        access = self.grants.new_access(grant, lifetime=lifetime, is_jwt=self.scheme.issues_jwts)
        values = {**self.values, **grant.tenant, "accessToken": access.value, "scopes": list(grant.scopes)}
        values["scope"] = self.scheme.scopes_joined_by.join(grant.scopes)
        values["idToken"] = f"{self.grants.key}.id.token"
        if refresh is not None:
            values["refreshToken"] = refresh.value
        if access.expires_at is not None and lifetime is not None:
            at = access.expires_at
            values |= {"expiresIn": lifetime, "expiresInMs": lifetime * 1000, "expiresAt": int(at)}
            values |= {
                "expiresAtMs": int(at * 1000),
                "expiresAtIso": datetime.fromtimestamp(at, UTC).isoformat(),
            }
        return Reply.of(filled(template, values), headers={"Cache-Control": "no-store"})


def _decoded(text: str) -> str:
    """A part of basic authentication: form-encoded (RFC 6749, section 2.3.1)."""
    return unquote_plus(text)
