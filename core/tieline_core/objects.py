"""The types of what stands in Kubernetes and in HTTP bodies, before it is parsed: plain JSON objects."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""A JSON object."""
Object = dict[str, Any]
"""An object of Kubernetes as its API server has it."""
ObjectView = Mapping[str, Any]
"""The same, where it may be one of a cache: those are shared, and never changed."""
