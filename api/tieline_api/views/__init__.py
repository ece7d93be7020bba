"""What answers show: objects looked up in the cache, with their status, as the REST API has them."""
