"""Plans, and the one place that applies them."""
