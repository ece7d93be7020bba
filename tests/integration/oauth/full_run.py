"""One connection for every kind of credential, used by code that tells all it sees."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import make_project, make_system, make_template
from tieline_core.identity.ids import new_id

CODE = """
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("tell")
async def tell(ctx: Context, request: Request) -> dict:
    template = request.query["template"]
    response = await ctx.fetch(template, request.query["path"], method="POST", json={"order": 1})
    said = await response.text()
    ctx.log.info("It said " + said, answer=said)
    with ctx.trace("reading", said=said):
        print("printed", said)
        print("as bytes", said.encode())
    return {"status": response.status}


@integration.webhook("fail")
async def fail(ctx: Context, request: Request) -> None:
    response = await ctx.fetch(request.query["template"], "/boom", method="POST", json={"order": 1})
    raise RuntimeError("The system said " + await response.text())
"""

Parts = tuple[dict[str, Any], dict[str, Any]]
"""A scheme and a credential."""


@dataclass(frozen=True)
class Listening(Client):
    """A caller that keeps every answer it gets, by what was asked."""

    answers: list[tuple[str, Answer]] = field(default_factory=list, compare=False)

    def at(
        self, path: str, *, method: str = "GET", body: Any = None, raw: bytes | None = None, **headers: str
    ) -> Answer:
        answer = super().at(path, method=method, body=body, raw=raw, **headers)
        self.answers.append((f"{method} {path}", answer))
        return answer


@dataclass
class FullRun:
    """What was made, and what is secret of it."""

    caller: Listening
    keycloak: Keycloak
    external: str
    secrets: dict[str, str | bytes] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    project: dict[str, Any] = field(default_factory=dict)
    application: Application | None = None
    """The one that a person has logged in for."""

    def make(self) -> None:
        """A project with a template and a connection for each kind, all by REST."""
        self.project = make_project(self.caller)
        for name, (scheme, credential) in {**self._plain(), **self._oauth2()}.items():
            _, template = self._prepared(name, scheme)
            self._linked(name, template, scheme, credential)

    def log_in(self, person: Person, verifier_of: Callable[[], str]) -> str:
        """A connection for which a person has logged in; ``verifier_of`` tells the PKCE verifier meanwhile."""
        application = self.application = self.keycloak.register(lifetime=6)
        self._knows(application, person=person)
        urls = {"tokenUrl": self.keycloak.token_url, "authorizeUrl": self.keycloak.authorize_url}
        grant = _code_grant(application.id, application.secret)
        scheme, name, identifier = (
            _scheme("oauth2", {**urls, "grant": grant, "pkce": True}),
            "login",
            new_id(),
        )
        system, template = self._prepared(name, scheme)
        begin = {
            "credential": {"id": identifier, "organisationId": self.caller.organisation},
            "authorizeUrl": self.keycloak.authorize_url,
            "clientId": application.id,
        }
        # The one answer that has to have the state.
        quiet = Client(self.caller.url, self.caller.token, self.caller.organisation)
        url = quiet.ok("POST", f"/systems/{system}/oauth2/initialise", begin)["url"]
        self.secrets["verifier"] = verifier_of()
        query = parse_qs(urlsplit(self.keycloak.log_in(url, person)).query)
        code, state = query["code"][0], query["state"][0]
        self.secrets |= {"code": code, "state": state}
        credential = {**_credential("oauth2-code", code=code, state=state), "id": identifier}
        return self._linked(name, template, scheme, credential)

    def nonsense(self) -> None:
        """Requests that are refused, each with a secret in it."""
        value = self.a("refused value")
        wrong: list[Any] = [
            {"type": "basic-auth", "data": {"basicAuth": {"username": 1, "password": [value]}}},
            {"type": value},
            {"type": "binary", "data": {"binary": {"valueBase64": value}}},
            {"type": "oauth2-code", "data": {"oauth2Code": {"code": value, "state": value}}},
            value,
        ]
        for credential in wrong:
            items = [{"id": "it", "credential": credential}]
            answer = self.caller("PUT", f"/connections/{self.connections[0]}", {"credentials": items})
            assert answer.status in (400, 422), (credential, answer)
        for path in ("/systems", "/connections", "/projects"):
            self.caller("POST", path, raw=f'{{"name": "{value}", '.encode())

    def a(self, name: str, letters: str = "+/") -> str:
        """A new secret, which is looked for; it ends in letters that encodings write differently."""
        value = f"{name.split(maxsplit=1)[0]}-{secrets.token_hex(8)}{letters}"
        self.secrets[name] = value
        return value

    def _prepared(self, name: str, scheme: dict[str, Any]) -> tuple[str, str]:
        system = str(make_system(self.caller, [scheme])["id"])
        self.systems.append(system)
        self.caller.ok("PUT", f"/systems/{system}", {"templateBaseUrl": self.external}, status=201)
        _, template = make_template(self.caller, project=self.project, system=system, name=name)
        return system, str(template["connectionTemplateId"])

    def _linked(self, name: str, template: str, scheme: dict[str, Any], credential: dict[str, Any]) -> str:
        credentials = [{"id": "it", "authSchemeConfig": scheme, "credential": credential}]
        connection = {"name": name, "credentials": credentials}
        body = {"connectionTemplateId": template, "connection": connection}
        made = self.caller.ok("POST", "/connections", body, status=201)
        self.templates.append(name)
        self.connections.append(made["id"])
        return str(made["id"])

    def _plain(self) -> dict[str, Parts]:
        key = self.secrets["hmac key"] = secrets.token_bytes(32)
        private = self.secrets["jwt key"] = pem(ec.generate_private_key(ec.SECP256R1()))
        certificate, own_key = Authority().issue("ours")
        own = self.secrets["certificate key"] = pem(own_key)
        consumer = {"consumerKey": "tieline", "consumerSecret": self.a("consumer secret")}
        header, query = {"name": "X-Key", "in": "header"}, {"name": "k", "in": "query"}
        digest = {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body", "url"]}
        tokens = {
            "tokenUrl": self.keycloak.token_url,
            "grant": _code_grant("nobody", self.a("unused client secret")),
        }
        token = _credential("oauth2-token", accessToken=self.a("access token given"), tokenType="Bearer")
        password = self.a("password of basic-auth", ": ü")
        in_base64 = base64.b64encode(key).decode()
        return {
            "header": (
                _scheme("api-key", header),
                _credential("string", value=self.a("api-key in a header")),
            ),
            "query": (_scheme("api-key", query), _credential("string", value=self.a("query key"))),
            "basic": (
                _scheme("basic-auth", {}),
                _credential("basic-auth", username="ann", password=password),
            ),
            "hmac": (_scheme("hmac", digest), _credential("binary", valueBase64=in_base64)),
            "jwt": (_scheme("jwt-bearer", {"algorithm": "ES256"}), _credential("jwt-bearer", key=private)),
            "certificate": (
                _scheme("certificate", {}),
                _credential("certificate", certificate=certificate, key=own),
            ),
            "secret": (
                _scheme("secret", {"name": "pin", "in": "body"}),
                _credential("string", value=self.a("pin secret", "+/ü")),
            ),
            "token": (_scheme("oauth2", tokens), token),
            "oauth1": (
                _scheme("oauth1", {**consumer, "signatureMethod": "PLAINTEXT"}),
                _credential(
                    "oauth1", oauthToken=self.a("oauth1 token"), oauthVerifier=self.a("verifier of oauth1")
                ),
            ),
        }

    def _oauth2(self) -> dict[str, Parts]:
        keycloak, person = self.keycloak, self.keycloak.person()
        service = keycloak.register_service(lifetime=6)
        asking = keycloak.register_for_passwords(lifetime=6)
        self._knows(service, asking, person=person)
        client = {"clientId": asking.id, "clientSecret": asking.secret}
        own = {"tokenUrl": keycloak.token_url, "grant": {"type": "clientCredentials"}}
        by_password = {**own, "grant": {"type": "password", "password": client}}
        wrong = self.a("wrong client secret")
        return {
            "service": (
                _scheme("oauth2", own),
                _credential("oauth2-client", clientId=service.id, clientSecret=service.secret),
            ),
            "mistyped": (
                _scheme("oauth2", own),
                _credential("oauth2-client", clientId=service.id, clientSecret=wrong),
            ),
            "person": (
                _scheme("oauth2", by_password),
                _credential("oauth2-password", username=person.name, password=person.password),
            ),
        }

    def _knows(self, *applications: Application, person: Person) -> None:
        for application in applications:
            self.secrets[f"client secret of {application.id}"] = application.secret
        self.secrets[f"password of {person.name}"] = person.password


def _scheme(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, _camel(kind): {"id": "it", **options}}


def _credential(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {_camel(kind): data}}


def _code_grant(identifier: str, secret: str) -> dict[str, Any]:
    return {
        "type": "authorizationCode",
        "authorizationCode": {"clientId": identifier, "clientSecret": secret},
    }


def _camel(kind: str) -> str:
    first, *rest = kind.split("-")
    return first + "".join(word.capitalize() for word in rest)
