"""The table of presets in ``docs/webhooks.md``, from the presets and the examples that tests verify.

``python -m deploy.sender_table`` writes it, ``--check`` compares instead.
"""

from deploy.generated_page import ROOT, write_or_compare
from tests.unit.runtime.auth.sender_vectors import VECTORS
from tieline_protocol.signature_presets import PRESETS, Preset
from tieline_protocol.signatures import JWT_ALGORITHMS, VALUE_ALGORITHMS, SignatureScheme, parse

PAGE = ROOT / "docs" / "webhooks.md"
BEGIN, END = "<!-- presets: generated -->\n", "<!-- end of presets -->\n"
_ORIGINS = ("published", "sdk", "computed")
_EXAMPLES = {
    "published": "the sender's example",
    "sdk": "the sender's library",
    "computed": "a computed example",
}


def table() -> str:
    """One row a preset."""
    rows = [
        "| preset | sender | the credential's value | proof | handshake | queued answer | tested with |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *(_row(name, preset) for name, preset in PRESETS.items())]) + "\n"


def _row(name: str, preset: Preset) -> str:
    scheme = parse({"preset": name})
    found = {one.origin for one in VECTORS if one.preset == name}
    best = next(one for one in _ORIGINS if one in found)
    cells = (
        f"`{name}`",
        f"[{preset.sender}]({preset.source})",
        preset.secret,
        _proof(scheme),
        "yes" if scheme.challenges or scheme.certificates == "sns" else "",
        _answer(scheme),
        _EXAMPLES[best],
    )
    return f"| {' | '.join(cells)} |"


def _proof(scheme: SignatureScheme) -> str:
    place = scheme.names[0] if scheme.location == "header" else f"{scheme.location} `{scheme.name}`"
    where = f"`{place}`" if scheme.location == "header" else place
    if scheme.algorithm in VALUE_ALGORITHMS:
        return f"{where}: the secret itself"
    if scheme.algorithm in JWT_ALGORITHMS:
        covers = (
            "the body's hash" if scheme.body_hash else "the URL" if scheme.query_hash_claim else "no body"
        )
        return f"{where}: JWT, {covers}"
    kinds = [one.argument if one.kind == "field" else one.kind for one in scheme.inputs]
    covered = dict.fromkeys(_short(kind) for kind in kinds if kind not in ("literal", "secret"))
    return f"{where}: {scheme.algorithm} of {', '.join(covered)}"


def _short(kind: str) -> str:
    """The last part of a field's path."""
    return kind.rpartition(".*.")[2].removeprefix("NotificationRequestItem.")


def _answer(scheme: SignatureScheme) -> str:
    if scheme.answer is None:
        return "202"
    return f"{scheme.answer.status}{f' `{scheme.answer.body}`' if scheme.answer.body else ''}"


def with_table(page: str) -> str:
    """The page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    raise SystemExit(write_or_compare(PAGE, with_table(PAGE.read_text(encoding="utf-8"))))
