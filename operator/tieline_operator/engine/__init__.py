"""The event engine: its keys, the credentials of those that connect to it, and its streams."""
