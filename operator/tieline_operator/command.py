"""The console script ``tieline-operator``: says which extra to install where its packages are missing."""

import sys


def main() -> int:
    """Runs the operator; 2 when a package that it needs is not installed."""
    try:
        from tieline_operator.main import main as run  # noqa: PLC0415  (what it imports may be missing)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("tieline"):
            raise
        print(
            f"tieline-operator: {missing} is missing; run `pip install 'tieline[operator]'`", file=sys.stderr
        )
        return 2
    return run()
