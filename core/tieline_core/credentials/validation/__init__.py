"""Validation of auth schemes and credentials: pure functions that operator and API share."""
