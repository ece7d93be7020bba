"""The Kubernetes cluster as the API sees it: caches, indexes, and writes by server-side apply."""
