"""Checks the block ``emulator`` of the catalogue's entries: a part of ``make catalogue-check``."""

import sys
from pathlib import Path

from tieline.emulator.check import findings
from tieline_catalogue import packing


def main() -> None:
    """Checks the entries in ``catalogue`` of the current folder, or those that the arguments name."""
    folder, wrong = Path("catalogue"), False
    for key in sys.argv[1:] or packing.keys(folder):
        for sentence in findings(packing.read_entry(folder / f"{key}.yaml")):
            print(f"{key}: {sentence}", file=sys.stderr)
            wrong = True
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
