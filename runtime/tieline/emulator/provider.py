"""One provider: its pages, endpoints and memory, made from its entry in the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from yarl import URL

from tieline.emulator import authorisation
from tieline.emulator.api import Api
from tieline.emulator.authorisation import AuthoriseError, Client, Consent
from tieline.emulator.callbacks import Forgery, signed_callback
from tieline.emulator.facts import Given, ListFacts, ProviderFacts
from tieline.emulator.grants import Clock, Grant, Grants
from tieline.emulator.messages import Asked, Reply
from tieline.emulator.oauth1 import OAuth1
from tieline.emulator.paging import EmulatedList, matching
from tieline.emulator.scheme import OAuthScheme, Raw, section
from tieline.emulator.templates import literal_at
from tieline.emulator.token_endpoint import TokenEndpoint
from tieline.emulator.urls import Endpoint
from tieline.emulator.webhooks import WebhookSender

_MOST_SEEN = 1000


@dataclass
class Outage:
    """Answers of the token endpoint or the API that say that the provider is down."""

    times: int = 0
    status: int = 503


@dataclass
class Provider:
    """Plays one provider. Its methods are what a test does at the provider's side."""

    entry: Raw
    redirect_uris: frozenset[str] = frozenset()
    presets: Mapping[str, Any] = field(default_factory=dict)
    """The fields of an ``hmac`` object that each preset stands for."""
    clock: Clock = field(default_factory=Clock)
    seen: list[Asked] = field(default_factory=list)
    """The latest requests, oldest first."""
    outage: Outage = field(default_factory=Outage)
    forgery: Forgery | None = None
    """What an attacker changes in signed callbacks."""

    def __post_init__(self) -> None:
        self.key: str = self.entry["key"]
        self.name: str = self.entry.get("name") or self.key
        self.facts = ProviderFacts.model_validate(self.entry.get("emulator") or {})
        self.system: Raw = self.entry["system"]
        self.client = Client(f"{self.key}-client", f"{self.key}-secret", self.redirect_uris)
        self.api_key = f"{self.key}-key"
        self.user = f"{self.key}-user"
        self.grants = Grants(self.key, self.clock)
        self.scheme = self._scheme()
        self.signing = OAuth1.of(self.system, self.facts, self.client, self.grants)
        self.base = Endpoint.of(str(self.system.get("templateBaseUrl") or ""))
        self.values = {**_samples(self.system), **self._kept(), **self.facts.inputs}
        if self.values.get("baseUrl") == "":
            self.values["baseUrl"] = self.base_url
        self.bases = (self.base, Endpoint.of(self.values.get("baseUrl") or self.base_url))
        self.api = Api(
            system=self.system,
            facts=self.facts,
            bases=self.bases,
            grants=self.grants,
            scheme=self.scheme,
            key=self.api_key,
            values=self.values,
            signing=self.signing,
        )
        self.api.lists = self._lists()
        self._tokens: TokenEndpoint | None = None
        if self.scheme is not None:
            user = (self.user, self.api_key)
            self._tokens = TokenEndpoint(self.scheme, self.client, self.grants, user, self.values)
        self._consented = False

    def _scheme(self) -> OAuthScheme | None:
        for one in self.system.get("authSchemeConfigs") or ():
            if one["type"] == "oauth2":
                return OAuthScheme(one["oauth2"], self.facts)
        return None

    def _kept(self) -> dict[str, str]:
        """What the scheme keeps of answers: what the entry's answers say, or samples.

        An empty base URL is the System's.
        """
        raw, facts = self.scheme.raw if self.scheme else {}, self.facts
        answers = (
            (section(raw, "tokenAnswer"), facts.token_answer),
            (section(raw, "afterToken"), facts.after_token),
        )
        found = [
            (rule, literal_at(answer, rule["path"]))
            for part, answer in answers
            for rule in part.get("keep") or ()
        ]
        found += [
            (rule, facts.callback[rule["parameter"]])
            for rule in section(raw, "authorization").get("keep") or ()
            if rule["parameter"] in facts.callback
        ]
        kept: dict[str, str] = {}
        for rule, said in found:
            name = str(rule.get("variable") or rule.get("as"))
            if said:
                kept[name] = said
            else:
                kept.setdefault(name, "" if name == "baseUrl" else f"{name}-1")
        return kept

    def _lists(self) -> list[EmulatedList]:
        named = [*self.facts.lists, *([self.facts.list_] if self.facts.list_ else [])]
        paths = [one["path"] for one in section(self.system, "lists").get("paths") or ()]
        known = {one.path.partition("?")[0] for one in named}
        named += [ListFacts(path=path.replace("*", "{any}")) for path in paths if path not in known]
        if not named and section(self.system, "lists").get("default"):
            named = [ListFacts(path="/emulated-list")]
        found = ((one, matching(self.system, one.path)) for one in named)
        return [EmulatedList(one, dialect) for one, dialect in found if dialect is not None]

    @property
    def base_url(self) -> str:
        """The base URL, with the samples of its variables."""
        return self.base.filled(self.values)

    @property
    def endpoints(self) -> list[Endpoint]:
        """All URLs of the provider."""
        found = [*self.bases, Endpoint.of(self.base_url)]
        if self.scheme is not None:
            found += self.scheme.endpoints
            step = section(self.scheme.raw, "afterToken")
            found += [Endpoint.of(str(step["url"]))] if step else []
        found += self.signing.endpoints if self.signing else []
        found += [Endpoint(one.host, one.path) for one in self.facts.answers if one.host]
        return [one for one in found if one.host]

    def serves(self, host: str) -> bool:
        """Whether it has URLs at this host."""
        return any(one.serves(host) for one in self.endpoints)

    def knows(self, asked: Asked) -> bool:
        """Whether a request has something of this provider: its client, a code, a token or a key."""
        marks = (f"{self.key}-{kind}" for kind in ("client", "secret", "code", "at", "rt", "key", "user"))
        return any(mark in asked.everything for mark in marks)

    # Requests

    def serve(self, asked: Asked) -> Reply | None:
        """The answer to a request; None where it is none of this provider's URLs."""
        reply = self._served(asked)
        if reply is not None:
            self.seen.append(asked)
            del self.seen[:-_MOST_SEEN]
        return reply

    def _served(self, asked: Asked) -> Reply | None:
        scheme = self.scheme
        if scheme is not None and scheme.authorise is not None:
            tenant = scheme.authorise.match(asked.url)
            if tenant is not None and not self._is_token_request(asked, scheme):
                return self._authorise(asked, tenant)
        if self.signing is not None and self.signing.is_authorise(asked):
            return self._sign_authorise(asked, self.signing)
        if self.outage.times > 0 and asked.method in ("GET", "POST"):
            self.outage.times -= 1
            return Reply.of({"error": "temporarily_unavailable"}, status=self.outage.status)
        if scheme is not None and self._tokens is not None:
            for endpoint in (scheme.token, scheme.refresh, scheme.exchange):
                if endpoint is not None and (tenant := endpoint.match(asked.url)) is not None:
                    return self._tokens.serve(asked, tenant)
        issued = self.signing.serve(asked) if self.signing else None
        return issued or self.api.serve(asked)

    @staticmethod
    def _is_token_request(asked: Asked, scheme: OAuthScheme) -> bool:
        return (
            asked.method == "POST"
            and scheme.token.match(asked.url) is not None
            and "decision" not in asked.form
        )

    def _authorise(self, asked: Asked, tenant: Mapping[str, str]) -> Reply:
        assert self.scheme is not None  # noqa: S101  (its page was asked for)
        try:
            consent = authorisation.read(self.scheme, self.client, asked.url)
        except AuthoriseError as error:
            return self._refused(asked, error)
        decision = asked.form.get("decision") if asked.method == "POST" else None
        if decision is None:
            return Reply.page(authorisation.consent_page(self.name, consent))
        back = self.allow(consent, tenant) if decision == "allow" else self.deny(consent)
        if back is None:
            return Reply.page(authorisation.message_page(self.name, "Access was denied."))
        return Reply.redirect(back)

    def _sign_authorise(self, asked: Asked, signing: OAuth1) -> Reply:
        """The page of OAuth 1.0, or where the person is sent from it."""
        try:
            consent = signing.read(asked.url)
        except AuthoriseError as error:
            return Reply.page(authorisation.error_page(self.name, error), status=400)
        decision = asked.form.get("decision") if asked.method == "POST" else None
        if decision is None:
            return Reply.page(authorisation.consent_page(self.name, consent))
        back = signing.allow(consent) if decision == "allow" else signing.deny(consent)
        if back is None:
            return Reply.page(authorisation.message_page(self.name, "Access was denied."))
        return Reply.redirect(back)

    @property
    def sends_back_after_denial(self) -> bool:
        """Whether a person who denies access comes back to the application."""
        return bool(self.scheme.denied) if self.scheme else self.facts.denied != {}

    def _refused(self, asked: Asked, error: AuthoriseError) -> Reply:
        assert self.scheme is not None  # noqa: S101
        if error.fatal or self.scheme.errors_on_page:
            return Reply.page(authorisation.error_page(self.name, error), status=400)
        query = {"error": error.code, "error_description": error.description}
        if state := asked.url.query.get("state"):
            query["state"] = state
        return Reply.redirect(URL(asked.url.query["redirect_uri"]).update_query(query))

    def allow(self, consent: Consent, tenant: Mapping[str, str] | None = None) -> URL:
        """A person allows access: the callback's URL."""
        assert self.scheme is not None  # noqa: S101
        offline = self._is_offline(self.scheme, consent)
        grant = Grant(dict(tenant or {}), consent.scopes, offline)
        self._consented = True
        code = self.grants.code(grant, redirect_uri=consent.redirect_uri, challenge=consent.challenge)
        query = {**self.facts.callback, self.scheme.code_at_callback: code}
        return _back(consent, self._signed(consent, query, tenant or {}))

    def _signed(self, consent: Consent, query: dict[str, str], tenant: Mapping[str, str]) -> dict[str, str]:
        assert self.scheme is not None  # noqa: S101
        signature = section(self.scheme.authorization, "callbackSignature")
        if not signature:
            return query
        return signed_callback(
            {**query, **_state(consent)},
            signature,
            secret=self.client.secret,
            values={**self.values, **tenant},
            now=self.clock.now(),
            forgery=self.forgery,
        )

    def deny(self, consent: Consent) -> URL | None:
        """A person denies access: the callback's URL, if there is one."""
        assert self.scheme is not None  # noqa: S101
        return _back(consent, dict(self.scheme.denied)) if self.scheme.denied else None

    def _is_offline(self, scheme: OAuthScheme, consent: Consent) -> bool:
        facts = self.facts.refresh_tokens
        asked_again = "consent" in consent.query.get("prompt", "").split()
        if facts.again and self._consented and not asked_again:
            return False
        match scheme.refresh_tokens_given:
            case Given.ALWAYS:
                return True
            case Given.NEVER:
                return False
            case Given.SCOPE:
                return facts.scope in consent.scopes
            case Given.OFFLINE:
                return all(
                    consent.query.get(name) == value for name, value in scheme.offline_parameters.items()
                )

    def sign_in(self) -> dict[str, str]:
        """Tokens as if a person had allowed all scopes; their values are the same each time."""
        if self.scheme is None:
            return self.signing.sign_in() if self.signing else {}
        offline = self.scheme.refresh_tokens_given is not Given.NEVER
        grant = Grant(self._tenant(self.scheme), tuple(sorted(self.scheme.scopes)), offline)
        self.grants.issue_known(grant, lifetime=self.scheme.expires_in)
        refresh = {"refreshToken": f"{self.key}-rt-known"} if offline else {}
        return {"accessToken": f"{self.key}-at-known", **refresh}

    @cached_property
    def webhooks(self) -> WebhookSender | None:
        """Signs webhooks; None where the System has no scheme for them."""
        for one in self.system.get("authSchemeConfigs") or ():
            if one["type"] == "hmac":
                options = one["hmac"]
                preset = self.presets.get(str(options.get("preset"))) or {}
                return WebhookSender.with_new_secret({**preset, **options}, seed=self.key)
        return None

    def _tenant(self, scheme: OAuthScheme) -> dict[str, str]:
        return scheme.token.match(URL(scheme.token.filled(self.values))) or {}

    # What a test does

    def expire(self) -> int:
        """Ends all access tokens; returns how many."""
        return self.grants.expire()

    def revoke(self) -> int:
        """Takes back all that people have allowed; returns how much."""
        return self.grants.revoke()

    def limit_requests(self, times: int = 1, *, seconds: float = 30.0) -> None:
        """Answers the next requests to the API with "too many requests"."""
        self.api.limit.times, self.api.limit.seconds = times, seconds

    def fail(self, times: int = 1, *, status: int = 503) -> None:
        """Answers the next requests, apart from the authorise page, with an error of the server."""
        self.outage.times, self.outage.status = times, status

    def advance(self, seconds: float) -> None:
        """Lets time go by."""
        self.clock.advance(seconds)


def _back(consent: Consent, query: Mapping[str, str]) -> URL:
    return URL(consent.redirect_uri).update_query({**query, **_state(consent)})


def _state(consent: Consent) -> dict[str, str]:
    return {"state": consent.state} if consent.state else {}


def _samples(system: Raw) -> dict[str, str]:
    """A value for each variable of the System."""
    made = {str(name): str(value) for name, value in section(system, "variables").items()}
    for one in system.get("inputs") or ():
        made[one["name"]] = str(one.get("example") or made.get(one["name"]) or one["name"])
    return made
