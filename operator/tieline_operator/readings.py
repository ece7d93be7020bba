"""Typed forms of what many others refer to, shared by all reconcilers (see ``tieline_core.resources.readings``)."""

from tieline_core.resources import ConnectionTemplate, Project, ProjectVersion
from tieline_core.resources.readings import Readings

# All versions, templates and activations of a project look at it, and all activations at the templates.
PROJECT, TEMPLATE = Readings(Project), Readings(ConnectionTemplate)
# A project looks at all its versions, and each of them at the others.
VERSION = Readings(ProjectVersion, most=512)
