"""Events: what they are, when they are tried again, and the queue that keeps them."""
