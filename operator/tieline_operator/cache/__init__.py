"""Informers, indexers, transforms, and the mapping from events to reconcile keys."""
