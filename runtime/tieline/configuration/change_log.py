"""Saying in the log which changes are served with, so that people can follow a change to its end.

A change is one text, such as ``01J…Z.3`` (an object's id and generation). The API's line of the request that made it
has it, and so has the operator's.
"""

import logging
from collections.abc import Mapping, Sequence

logger = logging.getLogger("tieline.configuration")

# Kubernetes tears lines of more than 16 KiB: what is more than these goes into lines of its own.
_IN_A_LINE = 100
_NAMED = 10
_PROJECT = "projects/"


def tell(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Write what is other ``now`` than ``before``: changes by their objects' names, as ``connections/shop``.

    The project's change is missing while another version is wanted than this pod runs: nothing is gone then.
    """
    taken_up = [name for name, change in now.items() if before.get(name) != change]
    left = [name for name in before if name not in now and not name.startswith(_PROJECT)]
    for start in range(0, len(taken_up), _IN_A_LINE):
        names = taken_up[start : start + _IN_A_LINE]
        changes = [now[name] for name in names]
        logger.info("Serving with %s", _named(names), extra={"fields": {"changes": changes}})
    for start in range(0, len(left), _IN_A_LINE):
        names = left[start : start + _IN_A_LINE]
        gone = [before[name].partition(".")[0] for name in names]
        logger.info("Serving without %s", _named(names), extra={"fields": {"gone": gone}})


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
