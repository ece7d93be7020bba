"""The environment's configuration: connections with their credentials, templates and variables."""
