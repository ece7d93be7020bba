"""``python -m bench.api_in_namespace``: the API as a pod of the namespace that TIELINE_BENCH_NAMESPACE_FILE names.

There it keeps the keys of the console's sessions, which outlive a restart then.
"""

import os
from pathlib import Path

from tieline_api import console_settings
from tieline_api.main import main

if __name__ == "__main__":
    console_settings._POD_NAMESPACE = Path(os.environ["TIELINE_BENCH_NAMESPACE_FILE"])
    main()
