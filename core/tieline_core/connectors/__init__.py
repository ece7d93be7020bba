"""Connector import: from the bytes of an API's description to actions, triggers, definitions and auth schemes."""
