"""An auth scheme's validation messages: what it cannot work with, and what is probably not meant."""

# ruff: noqa: E501  (a table reads best with a case a line)

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.credentials.test_credential_errors import scheme
from tests.unit.oauth.memory_lookups import MemoryLookups, system
from tieline_core.credentials.validation.references import scheme_links
from tieline_core.credentials.validation.scheme_findings import KnownScheme, scheme_findings
from tieline_core.resources.auth_schemes import AuthSchemeConfig

CODE = {"type": "authorizationCode", "authorizationCode": {"secretRef": {"name": "c"}}}
OWN = {"type": "clientCredentials", "clientCredentials": {}}
SCOPES = [{"name": "read"}]


def oauth2(**fields: Any) -> AuthSchemeConfig:
    usual = {"tokenUrl": "https://a/t", "authorizeUrl": "https://a/a", "grant": CODE, "scopes": SCOPES}
    return scheme("oauth2", **{key: value for key, value in {**usual, **fields}.items() if value is not None})


def keep(**fields: str) -> dict[str, Any]:
    return {"keep": [{"path": "v", **{name.rstrip("_"): value for name, value in fields.items()}}]}


def own_client(**fields: Any) -> AuthSchemeConfig:
    return oauth2(grant=OWN, authorizeUrl=None, **fields)


def public(**fields: Any) -> AuthSchemeConfig:
    return oauth2(grant={"type": "authorizationCode", "authorizationCode": {"clientId": "a"}}, **fields)


def oauth1(*parameters: dict[str, Any], url: str = "https://a/t", **fields: Any) -> AuthSchemeConfig:
    usual = {
        "consumerKey": "k",
        "tempCredentialEndpoint": {"url": url},
        "resourceOwnerAuthorizationEndpoint": {"url": url},
        "tokenEndpoint": {"url": url, "additionalParamConfigs": list(parameters)},
    }
    return scheme("oauth1", **{key: value for key, value in {**usual, **fields}.items() if value is not None})


def parameter(name: str, location: str = "LOCATION_BODY", **more: Any) -> dict[str, Any]:
    return {"parameterName": name, "location": location, **more}


def hmac(*inputs: str, **more: Any) -> AuthSchemeConfig:
    fields = {"name": "X-S", "in": "header", "algorithm": "sha256", "digestInputs": list(inputs) or ["body"]}
    return scheme("hmac", **{**fields, **more})


def unsigned() -> AuthSchemeConfig:
    there = hmac("body")
    assert there.hmac
    return there.model_copy(update={"hmac": there.hmac.model_copy(update={"digest_inputs": []})})


CASES: list[tuple[str, AuthSchemeConfig, str, str, list[str] | None]] = [
    ("a usual scheme", oauth2(pkce=True), "", "", None),
    ("client credentials", own_client(), "", "", None),
    ("a URL with a variable", oauth2(tokenUrl="https://{shop}.a.example/t"), "", "", None),
    ("a URL with braces", oauth2(tokenUrl="https://a.example/{my$shop}"), "error", "curly braces", None),
    ("a URL that a variable leads anywhere", oauth2(tokenUrl="https://{host}/t"), "error", "hosts of its input", None),
    ("a URL with a fragment", oauth2(refreshUrl="https://a/t#x"), "error", "refreshUrl must not have a fragment", None),
    ("a URL with an empty label", oauth2(tokenUrl="https://a..b/t"), "error", "tokenUrl has a host", None),
    ("a URL without a host", oauth2(authorizeUrl="https:///a"), "error", "authorizeUrl is not a URL", None),
    ("a URL with a password", oauth2(tokenUrl="https://u:hush@a/t"), "error", "must not hold", None),
    ("a URL that is not encrypted", oauth2(tokenUrl="http://a/t"), "warning", "not https", None),
    ("one on this machine", oauth2(tokenUrl="http://localhost:8080/t"), "", "", None),
    ("nowhere to authorise", oauth2(authorizeUrl=None), "error", "needs authorizeUrl", None),
    ("somewhere to authorise, for nobody", oauth2(grant=OWN), "info", "authorizeUrl is not used", None),
    ("scopes that are not listed", oauth2(defaultScopes=["read", "write"]), "warning", "defaultScopes", ["write"]),
    ("no scopes at all", oauth2(scopes=[]), "info", "no scopes", None),
    ("a scope twice", oauth2(defaultScopes=["read", "read"]), "info", "twice", ["read"]),
    ("a dialect", oauth2(authorization={"offlineAccess": "parameters", "offlineParameters": "a=b", "prompts": ["x"], "prompt": "x"}, hosts=["*.a.example"], tokenAnswer=keep(as_="baseUrl")), "", "", None),
    ("offline access by no parameters", oauth2(authorization={"offlineAccess": "parameters"}), "error", "offlineParameters is empty", None),
    ("parameters that are not sent", oauth2(authorization={"offlineParameters": "a=b"}), "warning", "offlineParameters is used with", None),
    ("a prompt that does not exist", oauth2(authorization={"prompts": ["x"], "prompt": "x y"}), "error", "prompts does not list", ["y"]),
    ("one authorisation of an account", oauth2(authorization={"grantsPerAccount": 1}), "info", "keeps 1 authorisations of one account", None),
    ("a signed callback", oauth2(authorization={"callbackSignature": {"parameter": "hmac", "maxAge": "1h", "timestampParameter": "t"}}), "", "", None),
    ("a signed callback of an age without a time", oauth2(authorization={"callbackSignature": {"parameter": "hmac", "maxAge": "1h"}}), "error", "set timestampParameter", None),
    ("a value that is expected and not signed", oauth2(authorization={"callbackSignature": {"parameter": "hmac", "unsigned": ["p"], "expect": [{"parameter": "p", "value": "v"}]}}), "error", "lists as unsigned", ["p"]),
    ("a value that is kept nowhere", oauth2(tokenAnswer=keep()), "error", "without as and variable", ["v"]),
    ("two values for one variable", oauth2(tokenAnswer=keep(variable="v"), authorization={"keep": [{"parameter": "p", "variable": "v"}]}), "warning", "two places", ["v"]),
    ("a pattern that is none", oauth2(tokenAnswer=keep(variable="v", pattern="^(?=a)$")), "error", "no regular expressions", ["^(?=a)$"]),
    ("a base URL without hosts", oauth2(tokenAnswer=keep(as_="baseUrl")), "warning", "hosts is empty", None),
    ("all hosts there are", oauth2(hosts=["*.com"]), "error", "top-level domain", ["*.com"]),
    ("all hosts of a registry", oauth2(hosts=["*.co.uk", "*.shop.co.uk", "*.com.au"]), "error", "a registry", ["*.co.uk", "*.com.au"]),
    ("an uninstallation of nobody", oauth2(uninstall={"accountId": "a"}), "error", "keep a value as accountId", None),
    ("pkce without codes", own_client(pkce=True), "warning", "pkce is for the grant authorizationCode", None),
    ("a public client", public(pkce=True), "warning", "only public clients", None),
    ("a public client without pkce", public(), "warning", "set pkce", None),
    ("two secrets", oauth2(grant={"type": "authorizationCode", "authorizationCode": {"secretRef": {"name": "c"}, "credentialId": "x"}}), "warning", "its own secret is used", None),
    ("an owner of nothing", oauth2(grant={"type": "authorizationCode", "authorizationCode": {"secretRef": {"name": "c"}, "organisationId": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}), "warning", "without credentialId", None),
    ("mutual TLS without a certificate", oauth2(mtlsEnabled=True), "error", "needs a certificate", None),
    ("mutual TLS on http", oauth2(mtlsEnabled=True, mtlsCredentialId="c", tokenUrl="http://localhost/t"), "error", "https tokenUrl", None),
    ("a certificate that is not shown", oauth2(mtlsCredentialId="c"), "warning", "no certificate is shown", None),
    ("parameters of the request", oauth2(additionalTokenParams="grant_type=x&audience=y"), "warning", "additionalTokenParams", ["grant_type"]),
    ("parameters of the redirect", oauth2(additionalAuthorizeParams="state=x&nonce=y"), "warning", "additionalAuthorizeParams", ["state"]),
    ("a callback whose code is not signed", oauth2(authorization={"codeParameter": "auth_code", "callbackSignature": {"parameter": "hmac", "unsigned": ["auth_code", "timestamp"], "timestampParameter": "timestamp"}}), "error", "must cover the code and the time", ["auth_code", "timestamp"]),
    ("nothing is signed", unsigned(), "error", "digestInputs is empty", None),
    ("signed twice", hmac("body", "body"), "warning", "twice", ["body"]),
    ("no digest inputs of a preset", scheme("hmac", preset="stripe", toleranceSeconds=60), "", "", None),
    ("a preset with fields", scheme("hmac", preset="stripe", name="X-S"), "error", "leave that out", None),
    ("an input that is none", hmac("body", "timestamp"), "error", "timestampHeader", None),
    ("a preset without a time", scheme("hmac", preset="github", toleranceSeconds=60), "", "", None),
    ("a weak hash", hmac(algorithm="sha1"), "warning", "sha1 is weak", None),
    ("a tolerance of nothing", hmac(toleranceSeconds=60), "info", "timestampHeader", None),
    ("a signature over both", hmac("body", "url", timestampHeader="X-T", toleranceSeconds=60), "", "", None),
    ("a header that is the client's", scheme("api-key", name="Content-Length", **{"in": "header"}), "error", "HTTP client's own", None),
    ("a key in the URL", scheme("api-key", name="key", **{"in": "query"}), "info", "logs", None),
    ("a secret in the URL", scheme("secret", name="key", **{"in": "query"}), "info", "logs", None),
    ("a cookie's name", scheme("secret", name="a[0]", **{"in": "cookie"}), "error", "brackets", None),
    ("claims that are ours", scheme("jwt-bearer", algorithm="HS256", payload={"exp": 1, "iss": "x"}), "warning", "payload", ["exp"]),
    ("one name for two parameters", oauth1(parameter("a", targetName="x"), parameter("x")), "error", "one targetName", ["x"]),
    ("at two locations", oauth1(parameter("a"), parameter("a", "LOCATION_QUERY")), "", "", None),
    ("required, and nowhere", oauth1(parameter("a", "LOCATION_IGNORE", required=True)), "warning", "go nowhere", ["a"]),
    ("no consumer", oauth1(consumerKey=""), "warning", "consumerKey", None),
    ("secrets as they are, in the open", oauth1(url="http://localhost/t", signatureMethod="PLAINTEXT"), "error", "PLAINTEXT", None),
    ("one endpoint of three is missing", oauth1(tempCredentialEndpoint=None), "warning", "without tempCredentialEndpoint:", ["tempCredentialEndpoint"]),
    (
        "one endpoint of three is there",
        oauth1(tempCredentialEndpoint=None, tokenEndpoint=None),
        "warning",
        "without tempCredentialEndpoint and tokenEndpoint",
        ["tempCredentialEndpoint", "tokenEndpoint"],
    ),
    ("no endpoint", oauth1(tempCredentialEndpoint=None, tokenEndpoint=None, resourceOwnerAuthorizationEndpoint=None), "", "", None),
    ("a templated endpoint", oauth1(url="https://{shop}.example/t"), "", "", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("which", "severity", "words", "detail"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_what_is_odd_is_reported(
    which: AuthSchemeConfig, severity: str, words: str, detail: list[str] | None
) -> None:
    client = {"c": known_secret()}
    messages = [
        one.message for one in scheme_findings(KnownScheme(scheme=which, siblings=[which], secrets=client))
    ]
    told = [one for one in messages if words and words in one.text]
    assert bool(told) == bool(severity)
    for one in told:
        assert one.severity == severity
        assert (one.to_dict().get("detail")) == detail
    if not severity:
        assert messages == []
    assert "hush" not in repr(messages)


def known_secret() -> Any:
    from tieline_core.credentials.validation.secret_facts import SecretFacts, ValueFacts

    return SecretFacts(
        name="c", exists=True, right_type=True, values=ValueFacts(keys=frozenset({"clientSecret"}))
    )


def test_errors_come_first() -> None:
    found = scheme_findings(KnownScheme(scheme=public(tokenUrl="https://{a}/t", scopes=[])))
    order = [one.message.severity for one in found]
    assert order == sorted(order, key=["error", "warning", "info"].index)
    assert len(order) > 3


def test_schemes_of_one_type_are_to_be_told_apart() -> None:
    one, other = scheme("basic-auth"), scheme("basic-auth").model_copy(update={"id": "other"})
    (finding,) = scheme_findings(KnownScheme(scheme=one, siblings=[one, other]))
    assert "describe each" in finding.message.text
    described = other.model_copy(update={"description": "For robots"})
    assert scheme_findings(KnownScheme(scheme=one, siblings=[one, described])) == []


def test_a_client_that_is_named_and_not_there_is_reported() -> None:
    there = oauth2(grant={"type": "authorizationCode", "authorizationCode": {"credentialId": "nope"}})
    (problem,) = scheme_links(MemoryLookups(system()), "acme", there)
    (finding,) = [
        one
        for one in scheme_findings(KnownScheme(scheme=there, links=(problem,)))
        if one.reason == "CredentialNotFound"
    ]
    assert finding.message.severity == "error"
