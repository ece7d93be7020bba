"""One module a kind: observe, then plan."""
