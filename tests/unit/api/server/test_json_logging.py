"""What the server writes to its log is JSON, one object a line, also where Python warns."""

import json
import subprocess
import sys

PROGRAM = """
import logging, warnings
from aiohttp.multipart import parse_content_disposition
from tieline_api.server.json_logging import set_up
set_up("INFO")
parse_content_disposition('form-data; name="s3cr3t')
parse_content_disposition("form-data; name*=utf-9''s3cr3t")
warnings.warn("Something is deprecated")
logging.getLogger("a").info("Said")
"""


def test_warnings_are_lines_of_json_and_malformed_headers_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["severity"] for line in lines] == ["WARNING", "INFO"]
    assert "Something is deprecated" in lines[0]["message"]
    assert "s3cr3t" not in done.stdout
