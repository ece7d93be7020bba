"""The authorisation code flow: where users are sent, and what is remembered until they come back."""
