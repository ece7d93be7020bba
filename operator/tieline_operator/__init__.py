"""The operator: keeps in the cluster what the custom resources ask for."""
