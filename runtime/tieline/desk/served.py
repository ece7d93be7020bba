"""The server of pods, at one's own desk (``python -m tieline.desk.served``); it tells which files the code writes."""

import os
from pathlib import Path

from tieline import server
from tieline.desk.outputs import note_outputs

if __name__ == "__main__":
    note_outputs(Path(os.environ["TIELINE_CODE_DIR"]))
    server.main()
