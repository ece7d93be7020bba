"""Authorisations: where users are sent, what is remembered until they come back, and the exchange of codes."""
