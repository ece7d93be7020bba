"""Pages for end users: the hosted page, where an authorisation starts, and where providers send people back."""
