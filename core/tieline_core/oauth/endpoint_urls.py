"""Whether a URL of an auth scheme is one that requests can be sent to."""

from urllib.parse import urlsplit

from tieline_protocol.egress import is_host


def url_problem(url: str) -> str | None:
    """What is wrong with a URL, in words that follow its name ("tokenUrl …"); None where nothing is."""
    if "{" in url or "}" in url:
        return "has placeholders in curly braces; write the URL with them filled in"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        host = parts.hostname or ""
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or any(letter in url for letter in ' \\"<>^`|'):
        return "is not a URL that requests can be sent to; write it as https://host/path"
    if not is_host(host):
        return (
            "has a host that cannot be one; its parts, between dots, have 1 to 63 letters, digits or hyphens"
        )
    if "@" in parts.netloc:
        return "must not hold a user's name and password; put them into a credential"
    if parts.fragment:
        return "must not have a fragment (#…); leave that out"
    return None


def authority(url: str) -> str:
    """Host and port of a URL as they stand there; empty where it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
