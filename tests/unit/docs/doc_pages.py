"""The documentation as data: its pages, links and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import fast_yaml

_BLOCK = re.compile(r"^```([\w]*)[ ]?([^\n]*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """A code block: its language, the rest of its first line, and what is in it."""

    language: str
    mark: str
    text: str


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """The page without its code blocks."""
        return _BLOCK.sub("", self.text)

    def blocks(self, *languages: str) -> list[Block]:
        """The code blocks of these languages, in their order."""
        found = [Block(*parts) for parts in _BLOCK.findall(self.text)]
        return [block for block in found if block.language in languages]

    def links(self) -> list[str]:
        """The targets of links to other pages and files."""
        return [link for link in _LINK.findall(self.prose) if "://" not in link]

    def anchors(self) -> set[str]:
        """The headings as GitHub names them in links."""
        return {anchor(heading) for heading in _HEADING.findall(self.prose)}

    def chapters(self) -> list[str]:
        return re.findall(r"^## (.+)$", self.prose, re.M)

    def manifests(self) -> Iterator[dict[str, Any]]:
        """Whole objects among the YAML blocks (fragments, such as items of lists, have no kind)."""
        for block in self.blocks("yaml"):
            for document in fast_yaml.load_all(block.text):
                if isinstance(document, dict) and {"apiVersion", "kind", "metadata"} <= document.keys():
                    yield document


def anchor(heading: str) -> str:
    """A heading as a link's target."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def pages() -> list[Page]:
    """All pages: docs/, those in the root, and those beside the code and the examples."""
    found = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "cluster" / "README.md"]
    found += [ROOT / "deploy/helm/tieline/README.md", *(ROOT / "examples").rglob("*.md")]
    return [Page(path, path.read_text(encoding="utf-8")) for path in sorted(found)]


def page(name: str) -> Page:
    """The page at a path from the repository's root."""
    path = ROOT / name
    return Page(path, path.read_text(encoding="utf-8"))
