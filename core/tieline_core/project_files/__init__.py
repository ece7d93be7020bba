"""A project's files: checks before a deploy, and their storage in ConfigMaps."""
