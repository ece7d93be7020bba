"""Typed forms of what many others refer to, shared by all reconcilers (see ``tieline_core.resources.parsed_cache``)."""

from tieline_core.resources import ConnectionTemplate, Project, ProjectVersion
from tieline_core.resources.parsed_cache import ParsedObjectCache

# All versions, templates and activations of a project look at it, and all activations at the templates.
PROJECT, TEMPLATE = ParsedObjectCache(Project), ParsedObjectCache(ConnectionTemplate)
# A project looks at all its versions, and each of them at the others.
VERSION = ParsedObjectCache(ProjectVersion, most=512)
