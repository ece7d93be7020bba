"""The Project: its versions, environments and their status."""
