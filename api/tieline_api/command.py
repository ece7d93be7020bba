"""The console script ``tieline-api``: says which extra to install where its packages are missing."""

import sys


def main() -> int:
    """Runs the API; 2 when a package that it needs is not installed."""
    try:
        from tieline_api.main import main as run  # noqa: PLC0415  (what it imports may be missing)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("tieline"):
            raise
        print(f"tieline-api: {missing} is missing; run `pip install 'tieline[api]'`", file=sys.stderr)
        return 2
    return run()
