"""Origins of web pages, as browsers send them."""

import re
from urllib.parse import urlsplit

from yarl import URL

_DEFAULT_PORTS = {"https": 443, "http": 80}
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def web_origin(text: str) -> str:
    """The origin in lower case, without the usual port, and with its host's name in ASCII. ValueError for no origin.

    >>> web_origin("https://App.example:443/"), web_origin("https://b\u00fccher.example")
    ('https://app.example', 'https://xn--bcher-kva.example')
    """
    advice = "must be one origin such as https://app.example, without a path and without *"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(advice) from None
    bare = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not bare:
        raise ValueError(advice)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else _ascii(parts.hostname)
    if not host:
        raise ValueError(advice)
    usual = port in (None, _DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{host}" + ("" if usual else f":{port}")


def _ascii(name: str) -> str:
    """The host's name as it is in requests (IDNA); empty for what is no name."""
    try:
        host = URL.build(scheme="https", host=name).raw_host or ""
    except ValueError:
        return ""
    return host if _HOST.fullmatch(host) else ""
