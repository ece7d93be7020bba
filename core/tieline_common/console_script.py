"""Starts a console script whose packages may not be installed: operator and API are extras of ``tieline-platform``."""

import sys
from importlib import import_module


def start(module: str, *, extra: str) -> int:
    """Calls ``main`` of ``module``; 2 with the extra to install where a package that it needs is missing."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("tieline"):
            raise
        print(
            f"tieline-{extra}: {missing} is missing; run `pip install 'tieline-platform[{extra}]'`",
            file=sys.stderr,
        )
        return 2
    return int(main())
