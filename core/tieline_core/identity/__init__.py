"""Ids, names, labels and owner references of objects."""
