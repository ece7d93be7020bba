"""Issuers of JWTs, by configuration: a file, such as a mounted ConfigMap, that is read again when it changes.

A JSON or YAML list (or an object with the list under ``issuers``); docs/api.md shows one. All fields but
``issuer`` and one of ``jwksUrl`` and ``jwksFile`` have defaults, except ``audiences``: a token that was made
for another service must not open this one, so at least one audience is needed.
"""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from tieline_api.errors import field_path
from tieline_core.identity.ids import ULID_PATTERN

_LARGEST = 1024 * 1024

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Id = Annotated[str, StringConstraints(to_upper=True, pattern=f"(?i){ULID_PATTERN}")]
Url = Annotated[str, StringConstraints(max_length=2048, pattern=r"^https?://\S+$")]


class IssuersError(Exception):
    """The file cannot be used; the message says where and why."""


class Issuer(BaseModel):
    """An issuer whose tokens are accepted."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    """The ``iss`` of its tokens, letter by letter."""
    jwks_url: Url | None = None
    """Where its keys are."""
    jwks_file: Path | None = None
    """Or the file where they are."""
    audiences: Annotated[tuple[Name, ...], Field(min_length=1, max_length=32)]
    """One of these must be in ``aud``."""
    organisations_claim: Name | None = None
    """The claim that lists the organisations (ids) that a token is good for; absent: RBAC alone decides."""
    username_claim: Name = "sub"
    """The claim with the user's name."""
    groups_claim: Name = "groups"
    """The claim with the user's groups."""
    prefix: Annotated[str, StringConstraints(max_length=256)] | None = None
    """What stands before names and groups in RBAC; ``<issuer>#`` where it is absent."""
    scopes: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    """What clients that find the issuer by themselves ask it for, such as a scope that brings the audience."""
    sign_in: bool = True
    """Whether people can sign in there: agents' clients are sent to it. False for issuers of machines' tokens."""
    clock_skew_seconds: Annotated[float, Field(ge=0, le=300)] = 60.0
    """How far the issuer's clock may be off."""
    end_users: bool = False
    """Whether its tokens are those of end users: ``usernameClaim`` is then the user's external id."""
    organisations: Annotated[tuple[Id, ...], Field(max_length=1000)] | None = None
    """Of end users: the organisations that a token can be good for at most."""
    environments: Annotated[tuple[Id, ...], Field(min_length=1, max_length=1000)] | None = None
    """Of end users: the environments that a token reaches; all of the organisation when absent."""

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("needs one of jwksUrl and jwksFile")
        # "system:" is how Kubernetes' own users and groups begin: none may be had by naming oneself so.
        if self.prefix is not None and (not self.prefix or self.prefix.startswith("system:")):
            raise ValueError('prefix must not be empty and must not begin with "system:"')
        if self.end_users:
            if self.organisations is None and self.organisations_claim is None:
                raise ValueError(
                    "endUsers needs organisations or organisationsClaim: nothing else limits them"
                )
        elif self.organisations is not None or self.environments is not None:
            raise ValueError(
                "organisations and environments are for endUsers: RBAC decides for everybody else"
            )
        return self

    @property
    def rbac_prefix(self) -> str:
        """What stands before names and groups in RBAC."""
        return self.prefix or f"{self.issuer}#"


class _List(BaseModel):
    issuers: Annotated[list[Issuer], Field(max_length=64)]


def parse(text: bytes) -> dict[str, Issuer]:
    """The issuers in a file's text, by their ``iss``. Raises IssuersError."""
    try:
        found: Any = yaml.safe_load(text) or []
        content = found if isinstance(found, dict) else {"issuers": found}
        issuers = _List.model_validate(content).issuers
    except yaml.YAMLError as error:
        raise IssuersError(f"is no YAML: {str(error)[:200]}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise IssuersError(f"{field_path(first['loc'])}: {first['msg']}") from None
    result = {issuer.issuer: issuer for issuer in issuers}
    if len(result) < len(issuers):
        raise IssuersError("names an issuer twice: each has one entry")
    return result


class IssuersFile:
    """The issuers of a file. A change that cannot be used leaves those before it in place."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._text = b""
        self._issuers: dict[str, Issuer] = {}

    def read(self) -> bool:
        """Reads the file; whether it has changed. Raises IssuersError when it cannot be used."""
        try:
            text = self._path.read_bytes()[:_LARGEST]
        except OSError as error:
            raise IssuersError(f"{self._path} cannot be read: {error.strerror}") from None
        if text == self._text:
            return False
        try:
            self._issuers = parse(text)
        except IssuersError as error:
            raise IssuersError(f"{self._path} {error}") from None
        self._text = text
        return True

    def all(self) -> tuple[Issuer, ...]:
        """All of them, in the order of the file."""
        return tuple(self._issuers.values())

    def get(self, issuer: str) -> Issuer | None:
        """The issuer with this ``iss``."""
        return self._issuers.get(issuer)
