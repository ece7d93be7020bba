"""The consumer that a provider of OAuth 1.0 knows, and its endpoints."""

from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET
from tieline_core.oauth.oauth1_requests import Consumer
from tieline_core.resources.auth_schemes import OAuth1Endpoint

STYLES = ("AUTH_STYLE_AUTHORIZATION_HEADER", "AUTH_STYLE_FORM", "AUTH_STYLE_QUERY")
METHODS = ("HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "RSA-SHA1", "RSA-SHA256", "RSA-SHA512", "PLAINTEXT")
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


def consumer(method: str = "HMAC-SHA1") -> Consumer:
    return Consumer(key=CONSUMER, secret=PRIVATE if method.startswith("RSA") else SECRET, method=method)


def endpoint(url: str, *params: dict[str, Any], style: str = STYLES[0]) -> OAuth1Endpoint:
    return OAuth1Endpoint.model_validate(
        {"url": url, "additionalParamConfigs": params, "parameterTransmission": style}
    )
