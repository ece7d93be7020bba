"""Environments without pods: who wakes them, and who answers for them until a pod is ready."""
