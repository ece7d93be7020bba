"""Sequences of checks and writes that several operations share."""
