"""The tenant of a provider that a connection belongs to: the values of the variables in its URLs.

Tokens are of one tenant. They carry a mark of the values that they were obtained with, as a part of their source
(``Resolved.source``), and tokens with another mark are never used: not by pods, not for a refresh. With the old values
they are good again.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tieline_core.oauth import token_secret_codec
from tieline_core.objects import ObjectView
from tieline_protocol.oauth.kept import NOTHING, Kept
from tieline_protocol.url_inputs import (
    ANY_VALUE,
    UrlInput,
    UrlInputs,
    filled_url,
    inputs_for,
    url_inputs,
    variables_of,
)

_SEPARATOR = "-"
CHANGED = "TenantChanged"
"""The reason of a credential whose tokens are of other values than the connection has now."""
CHANGED_MESSAGE = (
    "The values in the system's URLs have changed since the connection was authorised, so its tokens are not used; "
    "connect again, or set the old values"
)


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """The values of the variables in the URLs of one auth scheme."""

    own: Mapping[str, str]
    """The connection's values."""
    defaults: Mapping[str, str]
    """The System's."""
    inputs: UrlInputs
    hosts: tuple[str, ...] = ()
    """Where the scheme lets variables lead that are a whole host."""
    names: frozenset[str] = frozenset()
    """The variables that identify the tenant."""
    kept: Kept = NOTHING
    """What was kept of the provider's answers. It identifies nothing."""

    def with_kept(self, kept: Kept) -> "Tenant":
        """The same tenant, with what was kept of further answers."""
        return replace(self, kept=self.kept.merged(kept))

    def url(self, template: str) -> str:
        """The URL with its values. Raises UrlInputError."""
        inputs = {**dict.fromkeys(self.kept.variables, UrlInput(pattern=ANY_VALUE)), **self.inputs}
        return filled_url(template, self.variables, inputs_for(template, inputs, self.hosts))

    @property
    def variables(self) -> dict[str, str]:
        """The values in effect."""
        return {**self.defaults, **self.kept.variables_over(self.own)}

    @property
    def identifying(self) -> dict[str, str]:
        """The values that identify the tenant."""
        values = {**self.defaults, **self.own}
        return {name: values[name] for name in sorted(self.names & values.keys())}

    @property
    def mark(self) -> str:
        """Fingerprint of the tenant's values; empty if no variable identifies a tenant."""
        if not self.identifying:
            return ""
        text = json.dumps(self.identifying, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def marked(self, source: str) -> str:
        """A source of tokens with the mark."""
        return f"{source}{_SEPARATOR}{self.mark}" if source and self.mark else source


def tenant_of(connection: ObjectView, system: ObjectView, scheme: Mapping[str, Any] | None) -> Tenant:
    """The tenant of a connection, from both specs and an auth scheme as custom resources have it.

    The variables of the scheme's URLs and of what callbacks must have identify it, and the inputs in the base URL.
    """
    inputs = url_inputs(system)
    oauth2 = (scheme or {}).get("oauth2") or {}
    named = (*_urls(oauth2), *_expected(oauth2))
    names = {name for template in named for name in variables_of(template)}
    if not connection.get("baseUrl"):
        names |= inputs.keys() & set(variables_of(system.get("templateBaseUrl") or ""))
    return Tenant(
        own=connection.get("variables") or {},
        defaults=system.get("variables") or {},
        inputs=inputs,
        hosts=tuple(oauth2.get("hosts") or ()),
        names=frozenset(names),
    )


def is_of_other_tenant(source: str, wanted: str) -> bool:
    """Whether tokens of one source come from the same inputs as those of another, and from other values."""
    inputs, _, mark = source.partition(_SEPARATOR)
    wanted_inputs, _, wanted_mark = wanted.partition(_SEPARATOR)
    return bool(inputs) and inputs == wanted_inputs and mark != wanted_mark


def mark_in(secret: ObjectView) -> str:
    """The mark of the tenant whose tokens a Secret holds."""
    notes = secret["metadata"].get("annotations") or {}
    return str(notes.get(token_secret_codec.SOURCE, "")).partition(_SEPARATOR)[2]


def without_tokens_of_others(secret: ObjectView, tenant: Tenant) -> ObjectView:
    """A Secret of tokens, without them where they are of another tenant."""
    return secret if mark_in(secret) == tenant.mark else {**secret, "data": {}}


def _urls(oauth2: Mapping[str, Any]) -> Iterator[str]:
    """The URLs of a scheme that get codes, tokens or client secrets, or where users sign in."""
    longer = (oauth2.get("tokenRequest") or {}).get("longLived") or {}
    after = oauth2.get("afterToken") or {}
    for holder, name in (
        (oauth2, "authorizeUrl"),
        (oauth2, "tokenUrl"),
        (oauth2, "refreshUrl"),
        (longer, "url"),
        (after, "url"),
    ):
        yield str(holder.get(name) or "")


def _expected(oauth2: Mapping[str, Any]) -> Iterator[str]:
    """What parameters of a signed callback must be."""
    signature = (oauth2.get("authorization") or {}).get("callbackSignature") or {}
    for one in signature.get("expect") or ():
        yield str(one.get("value") or "")
