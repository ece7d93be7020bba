"""What the pages say is there: links, manifests, settings, metrics, reasons, names for kubectl."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import fast_yaml
from tests.unit.docs.doc_pages import Page, page, pages
from tieline_api.handlers import OPERATIONS
from tieline_core.resources import KINDS
from tieline_core.resources.kinds import CATEGORY, CustomResource

CHAPTERS = ["Example", "Writing a spec", "Working with it", "Debugging it", "Status", "Conditions"]
BY_NAME = {kind.kind_info.name: kind for kind in KINDS}
PAGES = pages()
KIND_PAGES = {name: page(f"docs/kinds/{name.lower()}.md") for name in BY_NAME}
PACKAGES = {path.name for path in ROOT.glob("*/tieline_*")}
# Put together from parts in the code.
COMPUTED = {"TIELINE_PLATFORM_IMAGE"}
# Kinds of Kubernetes that the pages look at.
KUBERNETES = {
    "pods",
    "secrets",
    "crd",
    "namespace",
    "events",
    "configmaps",
    "deployment",
    "deployments",
    "services",
    "lease",
    "leases",
    "secret",
    "statefulset",
    "statefulsets",
    "persistentvolumeclaims",
}

each_page = pytest.mark.parametrize("read", PAGES, ids=lambda one: one.name)
each_kind = pytest.mark.parametrize("name", BY_NAME)


@cache
def sources() -> str:
    """All code and manifests, where names that pages mention must be."""
    folders = ("core", "operator", "api", "runtime", "cluster", "deploy")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    kept = [path for path in files if path.suffix in {".py", ".yaml"} and path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8") for path in kept)


@each_page
def test_every_link_leads_somewhere(read: Page) -> None:
    for link in read.links():
        path, _, heading = link.partition("#")
        target = (read.path.parent / path).resolve() if path else read.path
        assert target.exists(), f"{read.name}: {link}"
        if heading and target.suffix == ".md":
            there = Page(target, target.read_text(encoding="utf-8"))
            assert heading in there.anchors(), f"{read.name}: {link}"


@each_page
def test_every_manifest_is_what_the_models_read(read: Page) -> None:
    for manifest in read.manifests():
        if manifest["apiVersion"].startswith("tieline.dev/"):
            BY_NAME[manifest["kind"]].read(manifest)
    for block in read.blocks("yaml"):
        list(fast_yaml.load_all(block.text))


@cache
def words() -> frozenset[str]:
    """All words of the code, and of where settings of the build and of the tests are read."""
    others = [ROOT / "Makefile", ROOT / "tests" / "conftest.py"]
    text = "\n".join([sources(), *(path.read_text(encoding="utf-8") for path in others)])
    return frozenset(re.findall(r"\w+", text))


def named_settings(read: Page) -> set[str]:
    return set(re.findall(r"\bTIELINE_[A-Z0-9_]*[A-Z0-9]\b", read.text))


def named_metrics(read: Page) -> set[str]:
    return set(re.findall(r"`(tieline_[a-z_]+)(?:\{[^`]*)?`", read.prose)) - PACKAGES


def named_resources(read: Page) -> set[str]:
    """What kubectl gets in commands and in the text."""
    commands = re.findall(r"kubectl(?: -n \S+)? get [^`\n]*", read.text)
    lists = re.findall(r"\bget ((?:[a-z]+)(?:,[a-z]+)*)(?=[ `\n])", "\n".join(commands))
    return {name for names in lists for name in names.split(",")}


def named_paths(read: Page) -> set[str]:
    return set(re.findall(r"/api/v2/o/\{organisation\}(?:/[a-z0-9{}_-]+)+", read.text))


@pytest.mark.parametrize("named", [named_settings, named_metrics, named_resources, named_paths])
def test_what_must_exist_is_found_on_pages(named: Callable[[Page], set[str]]) -> None:
    """Otherwise the tests below would pass for want of anything to look at."""
    assert len({name for read in PAGES for name in named(read)}) > 5


@each_page
def test_every_setting_exists(read: Page) -> None:
    assert not named_settings(read) - COMPUTED - words(), read.name


@each_page
def test_every_metric_exists(read: Page) -> None:
    for name in named_metrics(read):
        # prometheus_client adds the ending to the name of a counter.
        assert {name, re.sub(r"_total$", "", name)} & words(), f"{read.name}: {name}"


def named_reasons(read: Page) -> list[str]:
    """Reasons in tables of conditions: | Ready | `Reason` | …"""
    return re.findall(r"^\| (?:True|False|Unknown) \| `(\w+)` \|", read.prose, re.M)


@each_kind
def test_every_reason_on_a_kinds_page_exists(name: str) -> None:
    reasons = named_reasons(KIND_PAGES[name])
    assert len(reasons) > 2
    for reason in reasons:
        assert f'"{reason}"' in sources(), f"{name}: {reason}"


def test_every_reason_of_the_troubleshooting_table_exists() -> None:
    table = page("docs/operations.md").prose.partition("## Troubleshooting")[2]
    reasons = [
        word
        for cell in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.M)
        for word in re.findall(r"\w+", cell)
    ]
    assert len(reasons) > 15
    for reason in reasons:
        assert f'"{reason}"' in sources(), reason


@each_kind
def test_every_kind_has_a_page_with_the_fixed_chapters_and_its_own_manifest(name: str) -> None:
    read = KIND_PAGES[name]
    assert read.text.startswith(f"# {name}\n\nAfter this page you can ")
    assert read.chapters() == CHAPTERS
    example = read.text.partition("## Example")[2].partition("## Writing a spec")[0]
    (manifest,) = fast_yaml.load_all(re.findall(r"```yaml\n(.*?)```", example, re.S)[0])
    assert manifest["kind"] == name
    assert {"name", "namespace"} <= manifest["metadata"].keys()


@each_kind
def test_every_field_of_a_kind_is_on_its_page(name: str) -> None:
    kind: type[CustomResource] = BY_NAME[name]
    written, _, seen = KIND_PAGES[name].prose.partition("## Status")
    for chapter, part in ((written, "spec"), (seen, "status")):
        model = kind.model_fields[part].annotation
        assert model is not None
        for field, info in model.model_fields.items():
            said = info.alias or field
            assert re.search(rf"^\| `{said}(\[\])?` \|", chapter, re.M), f"{name}: {part}.{said}"


@each_page
def test_everything_that_kubectl_gets_exists(read: Page) -> None:
    known = {CATEGORY, *KUBERNETES}
    for kind in KINDS:
        info = kind.kind_info
        known |= {info.plural, info.singular, *info.short_names}
    for name in named_resources(read):
        assert name in known, f"{read.name}: kubectl get {name}"


@each_page
def test_pages_for_newcomers_open_with_what_the_reader_can_do_after_them(read: Page) -> None:
    new = {"README", "concepts", "install", "first-integration", "operations"}
    if read.path.parent == ROOT / "docs" and read.path.stem in new:
        assert re.match(r"# .+\n\nAfter this page you ", read.text), read.name


def test_the_index_names_every_page_and_the_readme_the_first_ones() -> None:
    index, readme = page("docs/README.md"), page("README.md")
    indexes = [index, *(page(f"docs/{name}/README.md") for name in ("design", "sdk"))]
    linked = {(one.path.parent / link.partition("#")[0]).resolve() for one in indexes for link in one.links()}
    folders = {ROOT / "docs", *(ROOT / "docs" / name for name in ("design", "kinds", "sdk"))}
    for read in PAGES:
        if read.path.parent in folders and read.path != index.path:
            assert read.path in linked, read.name
    for name in ("docs/README.md", "docs/concepts.md", "docs/install.md", "docs/first-integration.md"):
        assert name in readme.links()


@each_page
def test_every_path_of_the_rest_api_exists(read: Page) -> None:
    known = {_unnamed(operation.path) for operation in OPERATIONS}
    for path in named_paths(read):
        assert _unnamed(path) in known, f"{read.name}: {path}"


def _unnamed(path: str) -> str:
    """The path with parameters that have no names."""
    return re.sub(r"\{\w+\}", "{}", path)


def test_the_architectures_arrows_are_the_imports_between_packages() -> None:
    packages = {path.name for path in ROOT.glob("*/tieline*") if (path / "__init__.py").exists()}
    (picture,) = [
        block.text for block in page("docs/architecture.md").blocks("mermaid") if "TD" in block.text
    ]
    names = dict(re.findall(r'(\w+)\["(tieline\w*)"\]', picture))
    drawn = {
        (names[source], names[target])
        for source, target in re.findall(r"^ +(\w+)(?:\[.*?\])? -->(?:\|.*?\|)? (\w+)", picture, re.M)
    }
    imported = {
        (package, target)
        for package in packages
        for (folder,) in [list(ROOT.glob(f"*/{package}"))]
        for module in folder.rglob("*.py")
        for target in re.findall(r"^\s*(?:from|import) (tieline\w*)", module.read_text("utf-8"), re.M)
        if target != package
    }
    assert drawn == imported
    assert set(names.values()) == packages


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "docs/glossary.md", "docs/architecture.md", "docs/development.md"]
)
def test_every_path_to_code_exists(name: str) -> None:
    folders = r"(?:core|operator|api|runtime|cluster|deploy|console|tests|docs|crds|bench)"
    packages = r"(?:tieline_core|tieline_engine|tieline_protocol|tieline_operator|tieline_api|tieline)"
    prose = page(name).prose
    places = [*re.findall(rf"`({folders}/[\w./-]*)`", prose), *re.findall(rf"`({packages}/[\w./-]+)`", prose)]
    roots = [ROOT, *(path for path in ROOT.iterdir() if path.is_dir())]
    assert places
    for place in places:
        assert any((root / place).exists() for root in roots), f"{name}: {place}"


@pytest.mark.parametrize(
    "read", [one for one in PAGES if one.path.parent.name == "decisions"], ids=lambda one: one.name
)
def test_a_decision_record_is_short_and_has_three_chapters(read: Page) -> None:
    assert read.chapters() == ["Context", "Decision", "Consequences"]
    # The list of dependencies is kept current.
    assert len(read.text.splitlines()) <= 30 or read.path.name.startswith("0001")
