"""The objects of an environment: Deployment, Service, network policy, ingress."""
