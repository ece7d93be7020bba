"""The bodies of the REST API, one module an area; field names are exactly the contract's."""
