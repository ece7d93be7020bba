"""What outlives a pod: small JSON documents that the API keeps for an environment."""
