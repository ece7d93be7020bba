"""What a project's files offer, read in this process."""

from collections.abc import Mapping, Sequence

from tieline_core.connectors.webhooks import Interface, assembled, declared_in
from tieline_protocol.python_source import trees


def interface_of(files: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> Interface:
    """What the files offer; those that do not parse offer nothing."""
    pairs = sorted(files.items() if isinstance(files, Mapping) else files)
    return assembled(pairs, (found for path, tree in trees(pairs) for found in declared_in(path, tree)))
