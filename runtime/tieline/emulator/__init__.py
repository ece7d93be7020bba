"""A provider emulator: plays a provider's documented behaviour from its entry in the catalogue.

It shares no code with the platform's OAuth client, dialects and signatures: an error would be in both, and no test
would show it.
"""
