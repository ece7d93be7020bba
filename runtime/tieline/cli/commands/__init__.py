"""The commands, one module an area."""
