"""Names, sizes and labels of a project's files."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tieline_protocol.findings import Finding
from tieline_protocol.runtime_image import misplaced_requirements

MAIN = "main.py"
MAX_PATH = 512
MAX_SEGMENT_BYTES = 255
MAX_FILE_BYTES = 1024 * 1024
MAX_TOTAL_BYTES = 8 * 1024 * 1024

_LABEL_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MIB = 1024 * 1024


def check_names(paths: Sequence[str]) -> Iterator[Finding]:
    """Paths that could leave the project or not be stored, names that are taken, and what is missing."""
    for path in paths:
        if problem := name_problem(path):
            yield _error(problem, filename=path)
    yield from check_twice(paths)
    seen = set(paths)
    yield from misplaced_requirements(sorted(seen))
    folders = {path[:index] for path in seen for index, letter in enumerate(path) if letter == "/"}
    for path in sorted(seen & folders):
        yield _error("this is the name of a file and of a folder; rename one of them", filename=path)
    if MAIN not in seen:
        yield _error(f"there is no {MAIN}; it is the file that is run: add it")


def check_twice(paths: Sequence[str]) -> Iterator[Finding]:
    """Names that two files have."""
    for path, count in Counter(paths).items():
        if count > 1:
            yield _error("there are two files of this name; keep one of them", filename=path)


def name_problem(path: str) -> str | None:
    """Why ``path`` cannot be a file's, or None."""
    if not path:
        return "a file has no name; give it a relative path such as main.py"
    if len(path) > MAX_PATH:
        return f"the path has {len(path)} characters, at most {MAX_PATH} are allowed"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "the path is absolute; write it relative to the project, such as shop/orders.py"
    if "\\" in path:
        return "the path has a backslash; separate folders by /"
    if _CONTROL.search(path):
        return "the path has control characters; use printable ones"
    segments = path.split("/")
    if ".." in segments:
        return 'the path has "..", which could leave the project; write it without'
    if path.startswith(".."):
        # The kubelet keeps such names for how it replaces a volume's files.
        return 'the path starts with "..", and Kubernetes mounts no such file; rename it'
    if "" in segments or "." in segments:
        return 'the path has empty parts or "."; write it without'
    if any(len(segment.encode("utf-8", "replace")) > MAX_SEGMENT_BYTES for segment in segments):
        return f"a part of the path has more than {MAX_SEGMENT_BYTES} bytes; shorten it"
    return None


def check_sizes(files: Sequence[tuple[str, bytes]]) -> Iterator[Finding]:
    """Files that are too large, one by one and together."""
    for path, content in files:
        if len(content) > MAX_FILE_BYTES:
            yield _error(
                f"the file has {len(content):,} bytes, at most {MAX_FILE_BYTES:,} (1 MiB) are allowed",
                filename=path,
            )
    total = sum(len(content) for _, content in files)
    if total > MAX_TOTAL_BYTES:
        yield _error(
            f"the files have {total / _MIB:.1f} MiB together, at most {MAX_TOTAL_BYTES // _MIB} are allowed"
        )


def check_labels(labels: Mapping[str, str]) -> Iterator[Finding]:
    """Label keys that the specification does not allow."""
    for key in labels:
        if not _LABEL_KEY.fullmatch(key):
            yield _error(
                f'the label key "{key[:100]}" must start with a letter and hold only letters, digits and '
                "underscores (at most 63)"
            )


def _error(message: str, *, filename: str | None = None) -> Finding:
    # A name may be what is wrong with a file: cut to what a status holds.
    return Finding(message=message, filename=(filename or "")[:MAX_PATH] or None)
