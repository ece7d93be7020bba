"""Requests through connections with the code that project pods use: the API's only imports of the runtime."""
