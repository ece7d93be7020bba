"""Reading from caches, writing by server-side apply."""
