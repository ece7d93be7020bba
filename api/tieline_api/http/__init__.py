"""One request: from the operation table to routes, checks, responses and the OpenAPI document."""
