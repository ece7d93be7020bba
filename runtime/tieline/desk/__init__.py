"""The command ``tieline``: runs, checks and describes a project at one's own desk. Pods import none of it."""
