"""What a pod's requests to the API carry: its own token, and the id of the run that they are made for."""

from pathlib import Path

from tieline.telemetry.logs import current_execution


def api_headers(token_file: Path) -> dict[str, str]:
    """The headers; the API writes the run's id into its own log as the request's. The file is read each time."""
    headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    execution = current_execution.get()
    return {**headers, "X-Request-Id": execution} if execution else headers
