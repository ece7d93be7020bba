"""What operator and API share: resources, identity, the Kubernetes port and the rules of the domain."""
