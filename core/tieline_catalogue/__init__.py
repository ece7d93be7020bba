"""The catalogue of providers: how to read, search and pack it. One YAML file a provider in ``catalogue/``."""
