"""An issuer of JWTs, and who trusts it."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tieline_api.auth.issuers import Issuer, IssuersFile
from tieline_api.auth.jwks import JwksCache
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.errors import ApiError

ISSUER = "https://login.example"
ORGANISATION = "01JD3Y000000000000000000RG"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(private: Any, kid: str, **more: Any) -> dict[str, Any]:
    algorithm = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    kind = next(made for known, made in algorithm.items() if isinstance(private, known))
    return {**kind.to_jwk(private.public_key(), as_dict=True), "kid": kid, **more}  # type: ignore[attr-defined]


class IssuerSetup:
    """A file of issuers, and a server of keys that can rotate and go away."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.path = folder / "issuers.yaml"
        self.issuer = {
            "issuer": ISSUER,
            "jwksUrl": f"{ISSUER}/keys",
            "audiences": ["tieline"],
            "organisationsClaim": "orgs",
            **changes,
        }
        self.path.write_text(json.dumps([self.issuer]))
        self.keys = [jwk(RSA, "one")]
        self.away = False
        self.loads = 0
        self.clock = 1000.0
        issuers = IssuersFile(str(self.path))
        issuers.read()
        self.sets = JwksCache(load=self._load, clock=lambda: self.clock)
        self.authenticator = JwtAuthenticator(issuers, self.sets, clock=lambda: self.clock)

    async def _load(self, _issuer: Issuer) -> bytes:
        self.loads += 1
        if self.away:
            raise OSError("down")
        return json.dumps({"keys": self.keys}).encode()

    async def status(self, token: str) -> int:
        """200, or the error's status; 0 when the token is left to others."""
        try:
            return 200 if await self.authenticator.authenticate(token) else 0
        except ApiError as error:
            return error.status


def token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "one", **claims: Any) -> str:
    payload = {
        "iss": ISSUER,
        "aud": "tieline",
        "sub": "ann",
        "exp": time.time() + 600,
        "groups": ["staff"],
        "orgs": [ORGANISATION.lower()],
        **claims,
    }
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm=algorithm, headers={"kid": kid} if kid else {})
