"""Traces of runs: each run is one, with a span for the trigger, each outbound request, and the author's own."""
