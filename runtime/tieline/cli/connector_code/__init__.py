"""``tieline connectors add``: an imported description as a JSON file, and as a typed module, beside the code."""
