"""Writes everything that a publisher of a release needs into one folder: ``python -m deploy.release``."""
