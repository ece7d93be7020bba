"""What the page may load, and in whose frames it may stand."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
_MAX_FRAMES = 20


def headers(*, frames: Iterable[str] = (), logo: str = "") -> dict[str, str]:
    """The headers of the page: it loads its own files, makes no markup from text, and calls its own API alone.

    ``frames`` are the origins that may show it in a frame; nobody, when there are none. ``logo`` is the brand's.
    """
    allowed = [origin for origin in frames if _ORIGIN.fullmatch(origin)][:_MAX_FRAMES]
    ancestors = " ".join(allowed) or "'none'"
    images = " ".join(["'self'", "data:", *_origin_of(logo)])
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        f"img-src {images}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'; "
        f"frame-ancestors {ancestors}"
    )
    return {
        "Content-Security-Policy": policy,
        # The page may be a window that the product has opened, and opens the window of an authorisation.
        "Cross-Origin-Opener-Policy": "unsafe-none",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def _origin_of(logo: str) -> list[str]:
    parts = urlsplit(logo)
    origin = f"{parts.scheme}://{parts.netloc}"
    return [origin] if parts.scheme == "https" and _ORIGIN.fullmatch(origin) else []
