"""Deploys the platform to a cluster and gives access to it."""
