"""Pure functions between custom resources (as plain dicts) and the REST models."""
