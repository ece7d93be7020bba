"""The pods' server, run locally (``python -m tieline.cli.dev_server``); it reports which files the code writes."""

import os
from pathlib import Path

from tieline.cli.written_files import record_written_files
from tieline.server.__main__ import main

if __name__ == "__main__":
    record_written_files(Path(os.environ["TIELINE_CODE_DIR"]))
    main()
