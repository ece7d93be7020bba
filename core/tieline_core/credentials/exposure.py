"""Whose code may read a Secret: what its owner says with a label and an annotation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.names import EXPOSE_LABEL, EXPOSED_TO_ANNOTATION, NOT_SECRET_ANNOTATION


@dataclass(frozen=True, slots=True)
class Exposure:
    """The environments that a Secret is opened to."""

    to: frozenset[str] | None = None
    """Projects, and environments as project/environment; None for all of the namespace."""
    not_secret: frozenset[str] = frozenset()
    """The keys whose values are not masked."""

    def includes(self, project: str, environment: str) -> bool:
        """Whether code of an environment may read the Secret."""
        return self.to is None or not self.to.isdisjoint((project, f"{project}/{environment}"))


def exposure_of(metadata: Mapping[str, Any]) -> Exposure | None:
    """What the metadata of a Secret says; None where it is not opened to code.

    >>> opened = {"labels": {"tieline.dev/expose-to-code": "true"}}
    >>> narrowed = {**opened, "annotations": {"tieline.dev/exposed-to": "shop, billing/production"}}
    >>> exposure_of({}), exposure_of(opened).includes("shop", "staging")
    (None, True)
    >>> [exposure_of(narrowed).includes(*one) for one in (("shop", "staging"), ("billing", "staging"))]
    [True, False]
    """
    if (metadata.get("labels") or {}).get(EXPOSE_LABEL) != "true":
        return None
    to = (metadata.get("annotations") or {}).get(EXPOSED_TO_ANNOTATION)
    return Exposure(to=None if to is None else _listed(to), not_secret=not_secret_of(metadata))


def not_secret_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The keys whose values are no secrets, as the metadata of a Secret says.

    >>> sorted(not_secret_of({"annotations": {"tieline.dev/not-secret": "account, tenant"}}))
    ['account', 'tenant']
    """
    return _listed((metadata.get("annotations") or {}).get(NOT_SECRET_ANNOTATION, ""))


def _listed(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(","))))
