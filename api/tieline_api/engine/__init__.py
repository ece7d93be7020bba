"""The engine: from one table of operations to routes, checks and the OpenAPI document."""
