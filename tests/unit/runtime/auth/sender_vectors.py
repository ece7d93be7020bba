"""The examples of senders' requests in ``sender_vectors.yaml``, and requests that are made of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict
from yarl import URL

from tests.unit.runtime.external_systems import scheme_credential
from tieline.configuration.snapshot import Credential, parse_credential
from tieline.server.sender_certificates import SenderCertificates
from tieline.server.webhook_signatures import Sender, verify_signature

Headers = list[tuple[str, str]]
# Mocks take long to make, and none of it is asked.
_PROTOCOL: Any = mock.Mock()
HOOK = "https://hooks.example/hook"


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A request of a sender that verifies."""

    preset: str
    origin: str
    secret: str
    body: bytes
    headers: Headers
    at: float | None = None
    source: str = ""
    method: str = "POST"
    url: str = HOOK
    certificate: str = ""

    @property
    def when(self) -> float:
        """A time at which it verifies."""
        return 1_700_000_000 if self.at is None else self.at

    def credential(self, **options: Any) -> Credential:
        """What verifies it."""
        return credential(self.secret, preset=self.preset, **options)

    def request(self) -> web.Request:
        """The request as a pod gets it."""
        url = URL(self.url, encoded=True)
        content = StreamReader(_PROTOCOL, limit=len(self.body) + 1, loop=asyncio.get_running_loop())
        content.feed_data(self.body)
        content.feed_eof()
        return make_mocked_request(
            self.method,
            url.raw_path_qs,
            headers=CIMultiDict(self.headers),
            payload=content,
            protocol=_PROTOCOL,
            app=_PROTOCOL,
            writer=_PROTOCOL,
            transport=_PROTOCOL,
        )

    async def verified(self, signer: Credential | None = None, **changes: Any) -> Sender:
        """Who sent it, with some of it changed."""
        one = replace(self, **changes)

        async def fetch(_: str) -> bytes:
            return one.certificate.encode()

        return await verify_signature(
            signer or one.credential(),
            one.request(),
            public_url=str(URL(one.url, encoded=True).origin()),
            certificates=SenderCertificates(fetch),
        )


def credential(secret: str, **options: Any) -> Credential:
    """A credential of type string for an auth scheme of type hmac."""
    return parse_credential(scheme_credential("hmac", options, value=secret))


def _vector(content: Mapping[str, Any]) -> Vector:
    headers = [(str(name), str(value)) for name, value in content["headers"].items()]
    return Vector(**{**content, "headers": headers, "body": content["body"].encode()})


VECTORS = [
    _vector(one)
    for one in yaml.safe_load(Path(__file__).with_name("sender_vectors.yaml").read_text(encoding="utf-8"))
]


def vector(preset: str) -> Vector:
    """The first example of a preset."""
    return next(one for one in VECTORS if one.preset == preset)
