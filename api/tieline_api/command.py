"""The console script ``tieline-api``."""

from tieline_common.console_script import start


def main() -> int:
    """Runs it; 2 where a package that it needs is not installed."""
    return start("tieline_api.main", extra="api")
