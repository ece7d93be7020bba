"""When the authority and the certificates are replaced. Pure but for random keys.

A new authority is distributed before it signs, and an old one stays trusted until all servers have certificates of the
new one. So at each moment a client trusts whatever certificate a server has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tieline_operator.tls.certificates import InvalidCertificateError, Issued, bundle

DISTRIBUTION = timedelta(hours=1)
"""Until each pod has what is written now: the kubelet renews mounted files within two minutes or so, and a node may be
away for a while."""
CURRENT, CURRENT_KEY = "ca.crt", "ca.key"
NEXT, NEXT_KEY = "next.crt", "next.key"
PREVIOUS = "previous.crt"


@dataclass(frozen=True, kw_only=True)
class Authority:
    """The authority, its successor while that is distributed, and its predecessor while that is still trusted."""

    current: Issued
    following: Issued | None = None
    previous: str = ""
    """A certificate in PEM: what only has to be trusted needs no key."""
    since: datetime
    """When ``current`` began to sign."""

    @property
    def trusted(self) -> str:
        """The certificates that clients trust, in PEM."""
        following = [self.following.certificate] if self.following else []
        return bundle([one for one in (self.current.certificate, *following, self.previous) if one])

    def to_values(self) -> dict[str, str]:
        """The values of its Secret."""
        values = {CURRENT: self.current.certificate, CURRENT_KEY: self.current.key}
        if self.following is not None:
            values |= {NEXT: self.following.certificate, NEXT_KEY: self.following.key}
        return values | ({PREVIOUS: self.previous} if self.previous else {})

    @classmethod
    def from_values(cls, values: Mapping[str, str], since: datetime | None) -> "Authority":
        """From the values of its Secret. Raises InvalidCertificateError."""
        current = Issued(values.get(CURRENT, ""), values.get(CURRENT_KEY, ""))
        following = Issued(values[NEXT], values.get(NEXT_KEY, "")) if values.get(NEXT) else None
        if not all(one.is_authority for one in (current, following) if one is not None):
            raise InvalidCertificateError("The certificate is not one of an authority")
        previous = bundle([values[PREVIOUS]]) if values.get(PREVIOUS) else ""
        return cls(current=current, following=following, previous=previous, since=since or current.made)


def renewed(
    authority: Authority | None, now: datetime, *, replace_before: datetime | None = None
) -> Authority:
    """The authority as it has to be now. One that was made before ``replace_before`` is replaced early."""
    if authority is None or authority.current.expires <= now:
        return Authority(current=Issued.authority(now), since=now)
    if authority.following is not None:
        if now - authority.following.made < DISTRIBUTION:
            return authority
        return Authority(current=authority.following, previous=authority.current.certificate, since=now)
    if authority.previous:
        # Servers get other certificates when it begins to sign; then these are distributed, too.
        return replace(authority, previous="") if now - authority.since >= DISTRIBUTION else authority
    outdated = replace_before is not None and authority.current.made < min(replace_before, now)
    if outdated or authority.current.is_due(now):
        return replace(authority, following=Issued.authority(now))
    return authority


def certificate(actual: Issued | None, authority: Issued, names: Sequence[str], now: datetime) -> Issued:
    """The certificate that a server with these names has to have now: the actual one where that is good."""
    good = (
        actual is not None
        and actual.names == frozenset(names)
        and not actual.is_due(now)
        and actual.is_issued_by(authority)
    )
    return actual if actual is not None and good else authority.issue(names, now)
