"""The order of resourceVersions.

They are integers that grow within a resource (KEP-5504). An aggregated API server may hand out something
else; then nothing is known but whether two are equal, and neither function says yes.
"""


def is_older(version: str, than: str) -> bool:
    """Whether ``version`` is known to be older than the other."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def is_covered(version: str, by: str) -> bool:
    """Whether who has seen all changes up to ``by`` is known to have seen ``version``."""
    return version == by or is_older(version, by)
