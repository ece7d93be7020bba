"""Reads API descriptions (OpenAPI, Swagger). Pure: no I/O, no processes, no storage."""
