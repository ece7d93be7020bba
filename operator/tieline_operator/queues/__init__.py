"""The work queue and the delaying queue."""
