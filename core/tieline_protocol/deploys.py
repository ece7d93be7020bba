"""What refuses a deploy: the check that the operator, the API and ``tieline check`` share."""

from collections.abc import Collection, Mapping, Sequence

from tieline_protocol.code_checks import check_code
from tieline_protocol.files import check_labels, check_names, check_sizes
from tieline_protocol.findings import Finding
from tieline_protocol.package_lock import parse_lock
from tieline_protocol.python_source import missing_templates, named_templates
from tieline_protocol.runtime_image import REQUIREMENTS

MAX_FINDINGS = 64

Files = Mapping[str, bytes] | Sequence[tuple[str, bytes]]


def check_files(
    files: Files,
    labels: Mapping[str, str],
    template_names: Collection[str] | None,
    *,
    connections_file: str = "",
) -> list[Finding]:
    """Findings about files and labels, at most MAX_FINDINGS; any of severity error refuses a deploy.

    ``files`` are pairs of path and content (a mapping cannot hold the duplicates that people write).
    ``template_names`` are the connection templates of the environment that the files go to; None skips
    that check, because templates belong to environments and files to none. ``connections_file`` is the file that has
    them on an author's machine.
    """
    pairs = pairs_of(files)
    findings = [*check_metadata(pairs, labels), *check_code(pairs)]
    if template_names is not None:
        findings += missing_templates(named_templates(pairs), template_names, connections_file)
    return findings[:MAX_FINDINGS]


def check_metadata(files: Sequence[tuple[str, bytes]], labels: Mapping[str, str]) -> list[Finding]:
    """Findings about names, sizes, labels and the lock of packages: all that is known without reading code."""
    return [
        *check_names([path for path, _ in files]),
        *check_sizes(files),
        *check_labels(labels),
        *_check_lock(files),
    ]


def _check_lock(files: Sequence[tuple[str, bytes]]) -> Sequence[Finding]:
    for path, content in files:
        if path == REQUIREMENTS and isinstance(found := parse_lock(content), list):
            return found
    return ()


def pairs_of(files: Files) -> list[tuple[str, bytes]]:
    """Files as pairs of path and content."""
    return list(files.items()) if isinstance(files, Mapping) else list(files)
