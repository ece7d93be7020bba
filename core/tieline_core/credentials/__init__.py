"""Which credential a reference means, and the tokens of its grants."""
