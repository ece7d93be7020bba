"""A random history of operations and faults on a cluster of its own, and what must be true after it."""
