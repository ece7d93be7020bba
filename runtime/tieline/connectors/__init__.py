"""Calls of operations that a connector's description names: requests and answers are checked against it."""
