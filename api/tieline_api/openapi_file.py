"""Prints the OpenAPI document, for what is generated from it: `python -m tieline_api.openapi_file > openapi.json`."""

import json
import sys
from importlib.metadata import version

from tieline_api.app import TITLE
from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import document


def main() -> None:
    """Write the document to standard output."""
    json.dump(document(OPERATIONS, title=TITLE, version=version("tieline")), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
