"""The event engine: the API's connection to it."""
