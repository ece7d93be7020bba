"""What a local cluster consists of: components, configuration, certificates."""
