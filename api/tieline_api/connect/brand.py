"""The brand of the page, by configuration: a file, such as a mounted ConfigMap, that is read at the start.

A JSON or YAML object; docs/embedding.md shows one. What an organisation sets counts before what stands at the top.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from tieline_api.connect.texts import problem_with
from tieline_api.errors import field_path
from tieline_core.identity.ids import ULID_PATTERN

_LARGEST = 1024 * 1024
_DATA = re.compile(r"data:image/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/]+=*")
_HTTPS = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?/[^\s\"'<>]*")


class BrandError(Exception):
    """The file cannot be used; the message says where and why."""


def _logo(text: str) -> str:
    if not (_DATA.fullmatch(text) or _HTTPS.fullmatch(text)):
        raise ValueError("must be an https URL, or a data: URL of a PNG, JPEG, WebP or SVG in base64")
    return text


Colour = Annotated[str, StringConstraints(pattern=r"^#[0-9a-fA-F]{3}([0-9a-fA-F]{3})?$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
Logo = Annotated[str, StringConstraints(max_length=256 * 1024), AfterValidator(_logo)]
Text = Annotated[str, StringConstraints(max_length=1000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Domain = Annotated[str, StringConstraints(min_length=1, max_length=253)]
OrganisationId = Annotated[str, StringConstraints(to_upper=True, pattern=f"(?i){ULID_PATTERN}")]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Colours(_Part):
    """Colours as ``#rrggbb``."""

    accent: Colour | None = None
    """Buttons and links."""
    on_accent: Colour | None = None
    """Text on buttons; black or white when left out."""
    background: Colour | None = None
    """The page."""
    surface: Colour | None = None
    """Cards and fields."""
    text: Colour | None = None
    """Text."""

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        together = (self.background, self.surface, self.text)
        if any(together) and not all(together):
            raise ValueError(
                "needs all of background, surface and text, or none: they count in light and in dark"
            )
        return self


class SystemTexts(_Part):
    """What users read about a system."""

    name: Name | None = None
    """Its name."""
    purpose: dict[Language, Text] = Field(default_factory=dict)
    """What it is connected for, by language."""
    help: dict[Language, Text] = Field(default_factory=dict)
    """Where users find the credential to enter, by language. Default: the text of the catalogue."""
    logo: Logo | None = None
    """Its logo: a data: URL."""


class Brand(_Part):
    """How the page looks, and what it says."""

    name: Name | None = None
    """The name of your product."""
    logo: Logo | None = None
    """Your logo."""
    colours: Colours = Colours()
    """Your colours."""
    languages: Annotated[tuple[Language, ...], Field(max_length=50)] = ()
    """The languages that the page offers, the usual one first; those of ``texts`` and en, de when left out."""
    texts: dict[Language, dict[Name, Text]] = Field(default_factory=dict)
    """Texts in the place of the page's own, by language and key."""
    systems: dict[Domain, SystemTexts] = Field(default_factory=dict)
    """What users read about systems, by their domains."""

    @field_validator("texts")
    @classmethod
    def _are_texts_of_the_page(cls, texts: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for language, own in texts.items():
            for key, text in own.items():
                if problem := problem_with(key, text):
                    raise ValueError(f"{language}: {problem}")
        return texts


class _File(Brand):
    organisations: dict[OrganisationId, Brand] = Field(default_factory=dict)


class Brands:
    """The brands of all organisations."""

    def __init__(self, file: _File | None = None) -> None:
        self._file = file or _File()

    def of(self, organisation: str) -> dict[str, Any]:
        """The brand of an organisation, as the page reads it."""
        own = self._file.organisations.get(organisation, Brand())
        usual = self._file.model_dump(exclude={"organisations"}, exclude_none=True, by_alias=True)
        return _merged(usual, own.model_dump(exclude_unset=True, exclude_none=True, by_alias=True))

    @classmethod
    def read(cls, path: str | None) -> "Brands":
        """The brands of a file; none without one. Raises BrandError when it cannot be used."""
        if path is None:
            return cls()
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise BrandError(f"{path} cannot be read: {error.strerror}") from None
        if len(text) > _LARGEST:
            raise BrandError(f"{path} is larger than {_LARGEST // 1024} KiB")
        return cls(parse(text))


def parse(text: bytes) -> _File:
    """The brands in a file's text. Raises BrandError."""
    try:
        return _File.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise BrandError(f"is no YAML: {str(error)[:200]}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise BrandError(f"{field_path(first['loc'])}: {first['msg']}") from None


def _merged(usual: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    result = dict(usual)
    for key, value in own.items():
        before = result.get(key)
        both = isinstance(value, dict) and isinstance(before, dict)
        result[key] = _merged(before or {}, value) if both else value
    return result
