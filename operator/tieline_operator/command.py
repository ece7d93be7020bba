"""The console script ``tieline-operator``."""

import sys

from tieline_common.console_script import start

_ENGINE_CREDENTIALS = "engine-credentials"


def main() -> int:
    """Runs the operator, or its subcommand; 2 where a package that it needs is not installed."""
    module = (
        "tieline_operator.engine_credentials"
        if sys.argv[1:2] == [_ENGINE_CREDENTIALS]
        else "tieline_operator.main"
    )
    return start(module, extra="operator")
